"""What people can do to runs: the one door for faces (law 13). Checks come first; nothing is paid before they pass."""

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from nightcrew import __version__
from nightcrew.agents import catalog
from nightcrew.app import wiring
from nightcrew.app.ground import check_trust, load_config, trust_here
from nightcrew.app.home import home_of
from nightcrew.config import Config
from nightcrew.core.events import Answered, CancelAsked, ConfigChanged, Entry, Event, ParkAsked, ResumeAsked, RunStarted
from nightcrew.core.ids import Commit, RunId
from nightcrew.core.roster import Agent, AgentRole
from nightcrew.core.state import RunState
from nightcrew.core.work import Blob, PipelinePhase, Task
from nightcrew.database import unusable
from nightcrew.engine import local
from nightcrew.engine.local import Left, folded
from nightcrew.engine.shelter import mode_of, version
from nightcrew.engine.waits import MARKER
from nightcrew.errors import UserError
from nightcrew.git import landing, workspace
from nightcrew.git.landing import try_pushing, try_signing
from nightcrew.git.repo import Repo, Target, Tip, exclude, identity, open_repo, pin, repo_id, target, tip
from nightcrew.git.sealed import git
from nightcrew.git.workspace import Pool
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal
from nightcrew.redact import Redactor

TITLE = 100


class StartAsk(NamedTuple):
    """What somebody typed after `run`."""

    cwd: Path
    text: str | None = None
    file: Path | None = None
    overrides: Mapping[str, str] = {}
    trust: bool = False
    allow_red_base: bool = False
    no_sandbox: bool = False
    verbs: frozenset[str] = frozenset()
    """The words that are verbs of the command line, which an instruction of one word must not be."""


# ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def start(ask: StartAsk, env: Mapping[str, str]) -> RunId:
    """Check everything that can be checked for nothing, and write the run's first fact. Raises UserError, one line each."""
    text = _instruction(ask)
    repo = open_repo(ask.cwd, env)
    overrides = dict(ask.overrides)
    if ask.no_sandbox:
        overrides["sandbox.mode"] = "off"
    if ask.allow_red_base:
        overrides["verify.base"] = "any"
    config = load_config(repo, env, overrides)
    if ask.trust:
        trust_here(ask.cwd, env)
    check_trust(config, repo, env)
    roster, notes = _roster(config, env)
    mode = _check_rights(config, roster)
    where = target(repo, config.settings.land.target, config.settings.land.remote)
    at = _rehearsed(repo, where, config.settings.land.mode)
    first = RunStarted(
        run=_fresh_id(),
        repo=repo_id(repo),
        task=Task(next(line.strip() for line in text.splitlines() if line.strip())[:TITLE], Blob("", 0)),
        target=where.branch,
        remote=where.remote or "",
        base=Commit(at.commit),
        seed=secrets.token_hex(8),
        roster=roster,
        roles=config.roles,
        settings=config.settings,
        limits=config.limits,
        notes=tuple(note for note in (*config.notes, *notes, at.note) if note),
        shelter=mode,
        version=__version__,
    )
    return _write(repo, first, text, env)


def _rehearsed(repo: Repo, where: Target, mode: str) -> Tip:
    """The target's tip, after a try of what the end needs: an identity, a signature, the right to push to a remote that answers."""
    identity(repo)
    try_signing(repo)
    at = tip(repo, where)
    if mode == "push" and where.remote and not at.note:
        try_pushing(repo, where, at.commit)
    return at


def _fresh_id() -> RunId:
    return RunId(time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + f"-{secrets.token_hex(2)}")


def _write(repo: Repo, first: RunStarted, text: str, env: Mapping[str, str]) -> RunId:
    """The run on disk: its base pinned, its places known, an older run's marker gone, its first fact written."""
    journal = wiring.open_journal(env)
    with unusable(journal.folder(first.run)):
        journal.folder(first.run).mkdir(mode=0o700, parents=True)
    blobs = Blobs(journal.folder(first.run) / "blobs", Redactor(wiring.known_secrets(env)))
    first = structs.replace(first, task=structs.replace(first.task, text=blobs.put(text.encode())))
    pin(repo, first.run, "base", first.base)
    top = repo.work_tree or repo.git_dir
    journal.set_place(first.repo, top)
    journal.set_place(f"checkout/{first.run}", top)
    exclude(repo, f"/{MARKER.parts[0]}/")
    (top / MARKER).unlink(missing_ok=True)
    journal.create(first.run, first.repo, first.task.title, time.time(), first)
    return first.run


def _instruction(ask: StartAsk) -> str:
    text = ask.text
    if ask.file is not None:
        try:
            text = ask.file.read_bytes().decode()
        except UnicodeDecodeError:
            raise UserError(f"the task file {ask.file} is not UTF-8", "convert it, or type the task") from None
        except OSError as error:
            raise UserError(f"the task file {ask.file} cannot be read: {error.strerror}", "name another file") from None
    if text is None or not text.strip():
        raise UserError("the task is empty", 'say what is to be done: nightcrew run "…"')
    words = text.split()
    if len(words) == 1 and words[0] in ask.verbs:
        raise UserError(
            f"'{words[0]}' is a verb, not a task", f"for the verb: nightcrew {words[0]}; a task takes more words"
        )
    return text


def _roster(config: Config, env: Mapping[str, str]) -> tuple[tuple[Agent, ...], tuple[str, ...]]:
    """The roster with each program as resolved now, and a note for each that is missing; somebody must be able to edit."""
    path = env.get("PATH", "")
    roster: list[Agent] = []
    missing: dict[str, str] = {}
    for agent in config.roster:
        resolved = catalog.resolve(agent, path)
        if resolved.why_not:
            missing[agent.id] = resolved.why_not
        roster.append(structs.replace(agent, program=resolved.program, version=_version(agent, resolved.program, env)))
    developers = config.roles.chain(AgentRole.Developer)
    if not [agent for agent in developers if agent not in missing]:
        looked = (
            "; ".join(missing[a] for a in developers if a in missing)
            or f"looked for {', '.join(catalog.looked_for())} on PATH"
        )
        raise UserError(f"no usable agent: {looked}", "install one, or describe one under [[agents]]: nightcrew init")
    return tuple(roster), tuple(f"agent {agent}: {why}" for agent, why in missing.items())


def _version(agent: Agent, program: str, env: Mapping[str, str]) -> str:
    argv = catalog.adapter(agent.kind).version_argv(program) if program else ()
    if not argv:
        return ""
    return version(argv, env)


def _check_rights(config: Config, roster: tuple[Agent, ...]) -> str:
    """The sandbox mode of the run; a model with full rights needs one that shelters files, unless the machine says otherwise."""
    mode = mode_of(config.settings.shelter.mode)
    real = [agent.id for agent in roster if catalog.KINDS[agent.kind].runs == "program"]
    if real and mode != "bwrap" and not config.open_rights:
        raise UserError(
            f"{', '.join(real)} would run with full rights and no file-system sandbox here",
            "install bubblewrap (or `pip install nightcrew[sandbox]`), or say --no-sandbox",
        )
    return mode


# ── driving ───────────────────────────────────────────────────────────────────────────────────────────────────────


def drive(
    run: RunId,
    env: Mapping[str, str],
    *,
    on_entry: Callable[[RunState, Entry], None] | None = None,
    wait: bool = True,
    take_over: bool = False,
) -> Left:
    """Drive a run until it rests. SIGINT parks, a second stops now; SIGTERM and SIGHUP leave, agents run on (rulings 11)."""
    config = load_config(None, env, {})
    tools, _ = wiring.open_tools(run, env, config.max_turns)
    lease = tools.journal.take_over(run) if take_over else tools.journal.acquire(run)
    try:
        return local.drive(tools, run, lease, on_entry, wait=wait)
    finally:
        lease.release()


def resume(run: RunId, env: Mapping[str, str], limits: Mapping[str, str], *, reconfigure: bool) -> None:
    """Let a parked run go on, with other limits or settings if asked. Raises UserError when no agent of it is there any more (rulings 12)."""
    journal = wiring.open_journal(env)
    state = view(run, env)
    if not state.done and not reconfigure:
        _somebody_there(state.started, env)
    if reconfigure or limits:
        say(run, _changed(state.started, journal, env, limits, reconfigure=reconfigure), env)
    if state.parked or any(isinstance(word.event, ParkAsked) for word in journal.words(run)):
        say(run, ResumeAsked(), env)


def _somebody_there(told: RunStarted, env: Mapping[str, str]) -> None:
    why = [catalog.resolve(agent, env.get("PATH", "")).why_not for agent in told.roster]
    if all(why):
        raise UserError(
            f"no agent of run {told.run} is there any more: {'; '.join(why)}",
            f"put one back, or take the settings as they are now: nightcrew resume --reconfigure {told.run}",
        )


def _changed(
    told: RunStarted, journal: Journal, env: Mapping[str, str], limits: Mapping[str, str], *, reconfigure: bool
) -> ConfigChanged:
    repo = open_repo(journal.place(told.repo), env)
    config = load_config(repo, env, {f"limits.{name}": value for name, value in limits.items()})
    if reconfigure:
        roster, _ = _roster(config, env)
        return ConfigChanged(
            limits=config.limits, roster=roster, roles=config.roles, settings=config.settings, why="reconfigured"
        )
    mine = {name: getattr(config.limits, name) for name in limits}
    return ConfigChanged(limits=structs.replace(told.limits, **mine), why="limits")


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def say(run: RunId, word: Event, env: Mapping[str, str]) -> None:
    """Leave a word for whoever drives the run, now or later."""
    wiring.open_journal(env).say(run, time.time(), word)


def park(run: RunId, env: Mapping[str, str], *, now: bool) -> None:
    """Stop at the next safe point, or now with everything rescued."""
    _going_on(run, env)
    say(run, ParkAsked(now=now), env)


def cancel(run: RunId, env: Mapping[str, str]) -> None:
    """End the run: its work is rescued, a failure marker is written."""
    _going_on(run, env)
    say(run, CancelAsked(), env)


def _going_on(run: RunId, env: Mapping[str, str]) -> None:
    if view(run, env).done:
        raise UserError(f"run {run} is over already")


def answer(run: RunId, env: Mapping[str, str], text: str, question: str = "") -> str:
    """Answer the question the run asks (the only one, or the one named); which it was."""
    state = view(run, env)
    names = tuple(state.questions)
    if question and question not in names:
        raise UserError(f"run {run} does not ask {question!r}", f"it asks: {', '.join(names) or 'nothing'}")
    if not question and len(names) != 1:
        raise UserError(
            f"run {run} asks {len(names)} questions",
            f"name one: {', '.join(names)}" if names else "there is nothing to answer",
        )
    chosen = question or names[0]
    say(run, Answered(question=chosen, text=text), env)
    return chosen


def driven(run: RunId, env: Mapping[str, str]) -> int:
    """The pid of the process that drives the run now; 0 when nobody does."""
    holder = wiring.open_journal(env).holder(run)
    return holder.pid if holder else 0


def view(run: RunId, env: Mapping[str, str]) -> RunState:
    """The run as it stands, for those who only look."""
    return folded(wiring.open_journal(env), run)


# ── what is left ────────────────────────────────────────────────────────────────────────────────────────────────────


def diff(run: RunId, env: Mapping[str, str]) -> str:
    """The work of a run as a patch: the commit that lands, or what its candidate holds so far."""
    state = view(run, env)
    repo = open_repo(wiring.open_journal(env).place(state.started.repo), env)
    winner = state.winning or next(iter(state.candidates.values()), None)
    if state.commit:
        return git(repo, "diff", "--no-ext-diff", f"{state.commit}^", state.commit)
    if winner is None or not winner.changed:
        raise UserError(f"run {run} has changed nothing so far", "nightcrew show tells where it stands")
    return git(repo, "diff", "--no-ext-diff", winner.start, winner.change.head)


class Cleaned(NamedTuple):
    """What `clean` did for one run: what went, and what stays with the reason."""

    run: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]


def clean(cwd: Path, env: Mapping[str, str], run: str = "") -> list[Cleaned]:
    """Remove what runs of this repository left that is proven landed or rescued; list the rest. A run that is not over is left alone."""
    journal = wiring.open_journal(env)
    repo = open_repo(cwd, env)
    pool = Pool(home_of(env) / "worktrees" / repo_id(repo), repo)
    chosen = [journal.find(run)] if run else [row.run for row in journal.recent_of(repo_id(repo), 10_000)]
    return [_clean_one(repo, pool, name, env) for name in chosen]


def _clean_one(repo: Repo, pool: Pool, run: RunId, env: Mapping[str, str]) -> Cleaned:
    state = view(run, env)
    if not state.done:
        return Cleaned(run, (), (f"the run is not over ({state.phase}): nightcrew resume, or cancel",))
    removed, kept = [], []
    for ws in workspace.leased(pool, run):
        saved = workspace.release(pool, ws)
        removed.append(f"workspace {ws.slot}")
        kept += [f"{saved.ref}: {saved.files} unsaved files"] if saved and saved.ref else []
    kept += landing.drop_run(repo, run, state.landing.commit if state.landing else "")
    branch = state.landing.branch if state.landing and state.landing.mode == "branch" else ""
    if branch and state.phase is PipelinePhase.Complete:
        gone = landing.landed(repo, target(repo, state.started.target, state.started.remote or "none"), state.commit)
        if gone and git(repo, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", ok=(0, 1)) == state.commit:
            git(repo, "update-ref", "-d", f"refs/heads/{branch}", state.commit)
            removed.append(f"branch {branch}")
        elif not gone:
            kept.append(f"branch {branch}: not landed on {state.started.target}")
    return Cleaned(run, tuple(removed), tuple(kept))
