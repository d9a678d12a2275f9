"""`completion`: click's own script for a shell."""

import click
from click.shell_completion import get_completion_class

from nightcrew.errors import UserError

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def verb(ctx: click.Context, shell: str) -> None:
    """A script that completes verbs and options; for bash: eval "$(nightcrew completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UserError(f"there is no completion for {shell}", f"there is for {', '.join(SHELLS)}")
    click.echo(kind(ctx.find_root().command, {}, "nightcrew", "_NIGHTCREW_COMPLETE").source())
