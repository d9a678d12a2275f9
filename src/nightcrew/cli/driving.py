"""Verbs that do something with runs: `run`, `resume`, `answer`, `fix`, `park`, `cancel`, `diff`, `clean`, `demo`."""

import shlex
import signal
import sys
from pathlib import Path

import click

from nightcrew.app import control, ground
from nightcrew.app.home import ALL, STOPPED, rows
from nightcrew.app.seen import RunId, seen
from nightcrew.app.text import ending_told
from nightcrew.app.views import conclusion
from nightcrew.cli.output import aside, environment, folder, json_option, printable, run_argument, say
from nightcrew.cli.reading import screen
from nightcrew.cli.verbs import TABLE
from nightcrew.errors import UserError

no_wait_option = click.option("--no-wait", is_flag=True, help="Leave (exit 3) when only time is waited for.")
limit_option = click.option(
    "--limit", multiple=True, metavar="NAME=VALUE", help="usd, tokens, turns, wall (`none` lifts it), turn, idle …",
    callback=lambda _c, _o, given: {f"limits.{n.strip()}": v.strip() for n, _, v in (one.partition("=") for one in given)},
)  # fmt: skip


@click.command
@click.argument("text", nargs=-1)
@click.option("--file", "file_", type=click.Path(path_type=Path), help="Read the task from a file.")
@click.option("--mode", "land__mode", help="branch (default), local or push: where the result goes.")
@click.option("--target", "land__target", help="The branch to land on.")
@click.option("--allow-red-base", "verify__base", flag_value="any", default=None, help="Start although the checks are red.")
@click.option("--no-sandbox", "sandbox__mode", flag_value="off", default=None, help="Agents run without a sandbox.")
@limit_option
@click.option("--trust", is_flag=True, help="Trust the commands of this repository's nightcrew.toml.")
@click.option("--detach", is_flag=True, help="Check and look at the base here, then go on without this terminal.")
@no_wait_option
@json_option
def run(
    *, text: tuple[str, ...], file_: Path | None, limit: dict[str, str], trust: bool, detach: bool, no_wait: bool, json_: bool,
    **settings: str | None,
) -> int:  # fmt: skip
    """Hand off the task TEXT (`-`: what is piped in) and see it through: plan, work, review, gate, landing."""
    overrides = limit | {name.replace("__", "."): value for name, value in settings.items() if value is not None}
    words = sys.stdin.buffer.read().decode(errors="surrogateescape") if text == ("-",) else " ".join(text) if text else None
    if (verb := (words or "").strip()) in TABLE:
        raise UserError(f"'{verb}' is a verb, not a task", f"for the verb: nightcrew {verb}; a task takes more words")
    if not trust and sys.stdin.isatty() and sys.stderr.isatty():
        named, trusted = ground.executes(folder(), environment())
        if named and not trusted:
            click.echo("\n".join(["nightcrew.toml of this repository would execute:", *named]), err=True)
            trust = click.confirm("Trust this, and start?", err=True)
    if trust:
        ground.trust_here(folder(), environment())
    started = control.start(folder(), environment(), words, file_, overrides)
    for note in () if json_ else control.view(started, environment()).started.notes:
        with aside():
            click.echo(printable(f"note: {note}"))
    return _drive(started, json_=json_, wait=not no_wait, detach=detach)


@click.command
@run_argument
@limit_option
@click.option("--reconfigure", is_flag=True, help="Take the settings as they are written now.")
@click.option("--take-over", is_flag=True, help="Drive it in place of a process that is frozen.")
@click.option("--all", "all_", is_flag=True, help="Every run that nobody drives, each by itself, without this terminal.")
@no_wait_option
@json_option
def resume(
    *, run: str | None, limit: dict[str, str], reconfigure: bool, take_over: bool, all_: bool, no_wait: bool, json_: bool
) -> int:
    """Let RUN (the newest here if none is named) go on where it was; nothing is paid twice."""
    if all_ and (run or limit or reconfigure or take_over or no_wait):
        raise UserError("--all takes every run as it is", "leave the rest out, or name one run without --all")
    if all_:
        return _resume_all(json_=json_)
    control.resume(found := seen(environment(), run).run, environment(), limit, reconfigure=reconfigure)
    return _drive(found, json_=json_, wait=not no_wait, take_over=take_over)


def _resume_all(*, json_: bool) -> int:
    found, told, failed = [row for row in rows(environment(), ALL) if row.word in STOPPED and not row.driven], [], False
    for row in reversed(found):  # the oldest was asked for first
        try:
            told.append(control.apart(RunId(row.run), environment()))
        except UserError as error:
            told.append(f"{row.short} does not go on: {error}")
            failed = True
    say([row._asdict() for row in found], told or ["no run waits to go on"], json_=json_)
    return int(failed)


@click.command
@click.argument("run")
@click.argument("text", nargs=-1, required=True)
@click.option("--question", default="", help="Which question, when there are several.")
@json_option
def answer(*, run: str, text: tuple[str, ...], question: str, json_: bool) -> int:
    """Answer RUN's question with TEXT; a run that nobody drives goes on by itself."""
    which = control.answer(found := seen(environment(), run).run, environment(), " ".join(text), question)
    told = [] if control.driven(found, environment()) else [control.apart(found, environment())]
    say(conclusion(control.view(found, environment())), [f"{found}: answered {which}", *told], json_=json_)
    return 0


@click.command
@click.argument("run")
@click.argument("findings", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why you want it fixed; the fixer reads it.")
@click.option("--allow-stale", is_flag=True, help="Although the work changed since the finding was raised.")
@no_wait_option
@json_option
def fix(*, run: str, findings: tuple[str, ...], reason: str, allow_stale: bool, no_wait: bool, json_: bool) -> int:
    """Have FINDINGS (R1-1-1 …) of a ready or blocked RUN fixed; then it is reviewed, tested and gated again."""
    return _drive(seen(environment(), run).run, json_=json_, wait=not no_wait, fix=control.Pick(findings, reason, allow_stale))


@click.command
@run_argument
@click.option("--now", is_flag=True, help="Stop the turns in flight too; their work is rescued.")
def park(*, run: str | None, now: bool) -> None:
    """Let what runs in RUN (the newest here if none is named) come to its end, and begin nothing new."""
    control.stop(found := seen(environment(), run).run, environment(), "now" if now else "park")
    click.echo(f"{found}: parking; go on with: nightcrew resume {found.rsplit('-', 1)[-1]}")


@click.command
@click.argument("run")
def cancel(run: str) -> int:
    """End RUN: its work is rescued, a failure marker is written. One that nobody drives comes to its end here."""
    control.stop(found := seen(environment(), run).run, environment(), "cancel")
    if not control.driven(found, environment()):
        code = _drive(found, json_=False, wait=True)
        return 0 if control.view(found, environment()).done else code
    click.echo(f"{found}: cancelling")
    return 0


@click.command
@run_argument
@click.argument("label", required=False, default="")
def diff(run: str | None, label: str) -> None:
    """The patch of RUN (the newest here if none is named): what lands, or what its candidate holds so far; of the candidate LABEL if named."""
    click.echo(control.diff(seen(environment(), run).run, environment(), label))


@click.command
@run_argument
@json_option
def clean(*, run: str | None, json_: bool) -> None:
    """Remove what RUN, or every run of this repository, left and nobody needs; list what is kept and why."""
    done = control.clean(folder(), environment(), run)
    told = [f"{one.run}: removed {what}" for one in done for what in one.removed]
    told += [f"{one.run}: kept {what}" for one in done for what in one.kept]
    say(done, told or ["nothing to clear away"], json_=json_)


@click.command
@click.option("--crash", is_flag=True, help="Kill nightcrew with -9 while an agent works, and resume.")
def demo(*, crash: bool) -> int:
    """Hand a task off on a small project; everything is real but the agents, which follow a script."""
    from nightcrew.app import demo, story, text  # noqa: PLC0415 - the only verb that plays

    where = demo.stage(environment())
    click.echo(f"A small project with a failing test is in {where.project}. {where.script['scenes']}")
    if crash:
        demo.crash(where)
        click.echo("nightcrew was killed with -9 while an agent works. The agent works on; resuming.\n")
    with screen(where.env) as show:
        left = control.drive(where.run, where.env, on_entry=demo.meddling(where, show))
    click.echo("\n".join(["", *text.told(story.story(seen(where.env, where.run).entries())), "", demo.history(where), ""]))
    us = shlex.join(["env", f"NIGHTCREW_HOME={where.env['NIGHTCREW_HOME']}", sys.executable, "-m", "nightcrew"])
    click.echo(f"Look around: cd {where.project} && {us} show\nClear it away: rm -rf {where.root}")
    return conclusion(left.state).exit_code


def _drive(
    run: RunId, *, json_: bool, wait: bool, take_over: bool = False, fix: control.Pick | None = None, detach: bool = False
) -> int:
    """Drive it until it rests; the exit code says how it stands, or which signal ended the driving."""
    enough = control.begun if detach else lambda _: False
    with screen(environment(), silent=json_) as show:
        left = control.drive(run, environment(), on_entry=show, wait=wait, take_over=take_over, fix=fix, enough=enough)
    end = conclusion(left.state)
    if enough(left.state) and not left.signal:
        say(end, [control.apart(run, environment())], json_=json_)
        return 0
    with aside():
        say(end, ending_told(end), json_=json_)
    if not left.signal or left.state.done:
        return end.exit_code
    return end.exit_code if left.signal == signal.SIGINT and end.word == "interrupted" else 128 + left.signal
