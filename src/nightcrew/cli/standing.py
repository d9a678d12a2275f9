"""Verbs about what a run would stand on here: `agents`, `doctor`, `init`, `trust`, `completion`; and `classify`."""

import time
from typing import IO

import click
from click.shell_completion import get_completion_class

from nightcrew.app import ground
from nightcrew.app.views import clock
from nightcrew.cli.output import environment, folder, json_option, say


@click.command
@click.option("--clear", default="", metavar="AGENT", help="Forget that this agent cools down.")
@json_option
def agents(*, clear: str, json_: bool) -> None:
    """The roster and what else is on PATH: version, login, what each can and sits for, who cools down and until when."""
    rows, told = ground.agents(folder(), environment(), clear), []
    for row in rows:
        until = row.cooling_until and f"cools down until {clock(row.cooling_until, time.time())}"
        told += [f"{row.id:<12} {row.kind:<10} {row.missing or until or 'ready'}" + (f" ({row.why})" if row.why else "")]
        told += [f"{'':<12} {', '.join(row.roles) or 'no role'}"]
        about = row.login and f"version {row.version or 'unknown'}, login {row.login}"
        told += [f"{'':<12} {line}" for line in (row.misbehaves, about, ", ".join(row.can)) if line]
    say(rows, told or ["no agents: none is configured and none was found on PATH (nightcrew doctor)"], json_=json_)


@click.command
@json_option
def doctor(*, json_: bool) -> int:
    """Look at machine, repository, agents (which tell their version) and settings; exit 1 if something will not do."""
    checks, settings = ground.doctor(folder(), environment())
    signs = ("NO" if not check.ok else "--" if check.name == "note" else "ok" for check in checks)
    told = [f"{sign}  {c.name}: {c.text}" + (f" ({c.hint})" if c.hint else "") for sign, c in zip(signs, checks, strict=True)]
    shown = [s for s in settings if s.value or s.key.startswith("roles.")]
    told += [f"    {s.key} = {s.value or 'nobody'}  [{s.origin}]" for s in shown]
    say({"checks": checks, "settings": settings}, told, json_=json_)
    return 0 if all(c.ok for c in checks) else 1


@click.command
def init() -> None:
    """Write a commented nightcrew.toml from what this repository shows; an existing one is kept."""
    click.echo(f"wrote {ground.init(folder(), environment())}; commit it, and check it with: nightcrew doctor")


@click.command
@click.option("--show", is_flag=True, help="Only say what would be executed.")
def trust(*, show: bool) -> None:
    """Trust what this repository's nightcrew.toml executes, as it is now; a change is asked about again."""
    named = ground.executes(folder(), environment())[0] if show else ground.trust_here(folder(), environment())
    told = [*named, *([] if show else ["trusted"])] if named else ["nothing in this repository's settings is executed"]
    click.echo("\n".join(told))


@click.command
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
@click.option("--exit-code", type=int, help="How the program ended; -9 for a death by signal 9.")
@click.option("--as-of", metavar="STAMP", help="When (ISO 8601); now if not given.")
@click.option("--zone", help="Zone of the clocks that name none; this machine's if not given.")
@click.option("--jsonl", is_flag=True, help="Rows of JSON in, answers of JSON out (docs/json.md).")
@json_option
def classify(*, file: IO[str], exit_code: int | None, as_of: str | None, zone: str | None, jsonl: bool, json_: bool) -> None:
    """What nightcrew makes of an agent's output in FILE (else on standard input), and what it would do."""
    from nightcrew.app import failing  # noqa: PLC0415 - the tables of failures; the other verbs do without

    if jsonl:
        for line in filter(str.strip, file):
            click.echo(failing.answer(line, environment()))
        return
    found = failing.verdict({"text": file.read(), "exit_code": exit_code, "as_of": as_of, "host_zone": zone}, environment())
    told = [found.label, f"nightcrew {found.does}", f"reset: {found.reset_at or 'not told'}", f"because of: {found.evidence}"]
    say(found, told, json_=json_)


@click.command
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """A script that completes verbs and options; for bash: eval "$(nightcrew completion bash)"."""
    if kind := get_completion_class(shell):
        click.echo(kind(ctx.find_root().command, {}, "nightcrew", "_NIGHTCREW_COMPLETE").source())
