"""`run`: hand off a task."""

from pathlib import Path

import click

from nightcrew.app import control
from nightcrew.cli.driving import drive, limit, limits, no_wait
from nightcrew.cli.output import environment, json_option
from nightcrew.cli.verbs import TABLE


@click.command("run")
@click.argument("text", nargs=-1)
@click.option("--file", "file_", type=click.Path(path_type=Path), help="Read the task from a file.")
@click.option("--mode", help="branch (default), local or push: where the result goes.")
@click.option("--target", help="The branch to land on.")
@limit
@click.option("--trust", is_flag=True, help="Trust the commands of this repository's nightcrew.toml.")
@click.option(
    "--allow-red-base", is_flag=True, help='Start although the checks are red already and verify.base is "green".'
)
@click.option("--no-sandbox", is_flag=True, help="Agents run without a sandbox.")
@no_wait
@json_option
def verb(  # noqa: PLR0913 - one parameter for each word a person may type
    *, text: tuple[str, ...], file_: Path | None, mode: str | None, target: str | None, limit_: tuple[str, ...],
    trust: bool, allow_red_base: bool, no_sandbox: bool, no_wait: bool, json_: bool,
) -> int:  # fmt: skip
    """Hand off the task TEXT and see it through: plan, work, review, gate, landing."""
    given = {"land.mode": mode, "land.target": target, **{f"limits.{k}": v for k, v in limits(limit_).items()}}
    ask = control.StartAsk(
        cwd=Path.cwd(),
        text=" ".join(text) if text else None,
        file=file_,
        overrides={name: value for name, value in given.items() if value is not None},
        trust=trust,
        allow_red_base=allow_red_base,
        no_sandbox=no_sandbox,
        verbs=frozenset(TABLE),
    )
    return drive(control.start(ask, environment()), json_=json_, wait=not no_wait)
