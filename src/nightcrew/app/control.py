"""What people can do to runs: the one door for faces (law 13). Checks come first; nothing is paid before they pass."""

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from nightcrew import __version__
from nightcrew.agents import catalog
from nightcrew.app import ground, story
from nightcrew.app.home import hide, home_of, zone_of
from nightcrew.app.seen import GONE
from nightcrew.app.views import EXITS, answers, conclusion, count
from nightcrew.config.build import Config, trusted
from nightcrew.config.values import environments, version
from nightcrew.core import events as ev
from nightcrew.core.ids import Commit, Label, RunId, Tree
from nightcrew.core.reducer import blocked
from nightcrew.core.roster import Agent, AgentRole
from nightcrew.core.state import RunState, branch_of
from nightcrew.core.trouble import looked
from nightcrew.core.work import PipelinePhase, Task
from nightcrew.database import unusable
from nightcrew.engine import handlers, jobs, local
from nightcrew.engine.tools import Clock, Tools, Turnstile
from nightcrew.engine.waits import MARKER, foreign
from nightcrew.errors import UserError
from nightcrew.git import landing, repo as here, slots, snapshot, workspace
from nightcrew.git.collect import has_change
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.git.sealed import Place, git
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal, Lease
from nightcrew.ledger import Ledger

TITLE = 100


def open_journal(env: Mapping[str, str]) -> Journal:
    """The journal of this machine, for those who only read or leave a word."""
    return Journal(home_of(env), hide(env))


def pool_of(checkout: Path, env: Mapping[str, str]) -> workspace.Pool:
    """The slots of the repository around `checkout`."""
    repo = open_repo(checkout, env)
    return workspace.Pool(home_of(env) / "worktrees" / repo_id(repo), repo)


def open_tools(run: RunId, env: Mapping[str, str], max_turns: int, clock: Clock | None = None) -> Tools:
    """Everything a driver of `run` needs. Raises UserError when the repository is gone, or another is found in its place."""
    home, places = home_of(env), open_journal(env)
    told = local.folded(places, run).started
    ends = any(isinstance(word, ev.CancelAsked) for _, word in places.words(run))  # then nobody is asked any more
    found, given = environments(() if ends else told.roster, env, cwd=Path(env.get("HOME", "/")))
    checkout = places.place(f"checkout/{run}")
    pool = pool_of(checkout if checkout.is_dir() else places.place(told.repo), env)
    if repo_id(pool.repo) != told.repo:
        raise UserError(f"the repository of run {run} is not at {checkout}", "put it back, then: nightcrew resume")
    journal = Journal(home, redactor := hide(env, *given, *here.passwords(pool.repo, told.remote)))
    queue = f"{told.repo}-{told.target.replace('/', '%2F')}.queue"
    return Tools(
        home=home, journal=journal, blobs=Blobs(journal.folder(run) / "blobs", redactor), ledger=Ledger(home, redactor), repo=pool.repo,
        pool=pool, clock=clock or Clock(), mode=jobs.mode_of(told.settings.shelter.mode), operator_env=dict(env),
        secrets={str(agent): told for agent, told in found.items()}, max_turns=max_turns,
        turnstile=Turnstile(home / "targets" / queue), marker_folder=pool.repo.work_tree or pool.repo.git_dir,
        headline=lambda state: conclusion(state).headline, zone=zone_of(env), redacted=redactor.text,
    )  # fmt: skip


def start(
    cwd: Path, env: Mapping[str, str], text: str | None, file: Path | None = None, overrides: Mapping[str, str] | None = None
) -> RunId:
    """Check everything that can be checked for nothing, and write the first fact of a run for the task in `text` or `file`. Raises UserError."""
    # `overrides` are settings as they were typed, such as `{"limits.usd": "5"}`.
    task, repo = _instruction(text, file), open_repo(cwd, env)
    config = ground.load_config(repo, env, overrides or {})
    if not trusted(home_of(env), repo_id(repo), config.digest):
        told = f"nightcrew.toml of this repository would execute {count(len(config.executes), 'thing')} you have not trusted yet"
        raise UserError(told, "look with `nightcrew trust --show`, then: nightcrew trust")
    roster, notes = _roster(config, env)
    mode, land = _check_rights(config, roster), config.settings.land
    environments(roster, env, cwd=Path(env.get("HOME", "/")))  # a secret without a value is said before there is a run
    where = here.target(repo, land.target, land.remote, land.mode)
    at, now, journal = _rehearsed(repo, where), time.time(), Journal(home_of(env), hide(env, *here.passwords(repo, where.remote)))
    run = RunId(time.strftime("%Y%m%d-%H%M%S-", time.gmtime(now)) + secrets.token_hex(2))
    kept, note = _housed(journal, run, repo, task)
    held = mode == "bwrap" or config.settings.pipeline.implementers == 1
    seeing = "" if held else f"blindness not enforced: in sandbox mode {mode} a judge can look where it may not"
    first = ev.RunStarted(
        run=run, repo=repo_id(repo), task=kept, target=where.branch, remote=where.remote or "", base=Commit(at.commit),
        seed=secrets.token_hex(8), roster=roster, roles=config.roles, settings=config.settings, limits=config.limits,
        notes=tuple(filter(None, (*config.notes, *notes, at.note, note, seeing))), shelter=mode, version=__version__,
    )  # fmt: skip
    journal.create(run, first.repo, kept.title, now, first)
    return run


def _rehearsed(repo: here.Repo, where: here.Target) -> here.Tip:
    """The target's tip, after a try of what the end needs: an identity, a signature, the right to push to a remote that answers."""
    here.identity(repo)
    if git(repo, "rev-parse", "-q", "--verify", "refs/heads/nightcrew", ok=(0, 1)):
        raise UserError("a branch `nightcrew` leaves no room for nightcrew/<run>/…", "rename it: git branch -m nightcrew …")
    landing.try_signing(repo)
    at = here.tip(repo, where)
    if where.mode == "push" and where.remote and "was not reached" not in at.note:
        landing.try_pushing(repo, where, at.commit)
    return at


def _housed(journal: Journal, run: RunId, repo: here.Repo, text: str) -> tuple[Task, str]:
    """The run's folder and places, an older run's marker gone; its task, and a note where the checkout can hold no marker. No ref is made."""
    top = repo.work_tree or repo.git_dir
    try:
        if not (why := foreign(repo, top)):
            (top / MARKER).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"an older run's {MARKER} cannot be removed: {error.strerror}", "remove what is there") from error
    with unusable(folder := journal.folder(run)):
        folder.mkdir(mode=0o700, parents=True)
    kept = Blobs(folder / "blobs", journal.redactor).put(text.encode())
    journal.set_place(f"checkout/{run}", top)  # a linked worktree may go before the run is over, the main checkout stays
    journal.set_place(repo_id(repo), Path(git(repo, "worktree", "list", "--porcelain").splitlines()[0].removeprefix("worktree ")))
    here.exclude(repo, f"/{MARKER.parts[0]}/")
    note = why and f"{why}: only the run's own completion marker is written"
    return Task(text.strip().splitlines()[0].strip()[:TITLE], kept), note


def _instruction(text: str | None, file: Path | None) -> str:
    named = f"the task file {file}" if file else "the task"
    if file and text is not None:
        raise UserError("the task is told twice, in words and in a file", "leave one of them out")
    try:
        # What was typed and is not UTF-8 comes as surrogates.
        task = (file.read_bytes() if file else (text or "").encode(errors="surrogateescape")).decode()
    except UnicodeError:
        raise UserError(f"{named} is not UTF-8", "convert it") from None
    except OSError as error:
        raise UserError(f"{named} cannot be read: {error.strerror}", "name another file") from None
    if not task.strip():
        raise UserError("the task is empty", 'say what is to be done: nightcrew run "…"')
    if "\0" in task:
        raise UserError(f"{named} holds a NUL byte", "a task is plain text")
    return task


def _roster(config: Config, env: Mapping[str, str]) -> tuple[tuple[Agent, ...], tuple[str, ...]]:
    """The roster with each program as resolved now, and a note for each that is missing; somebody must be able to edit."""
    found = {agent.id: catalog.resolve(agent, env.get("PATH", "")) for agent in config.roster}
    missing = {name: resolved.why_not for name, resolved in found.items() if resolved.why_not}
    developers = config.roles.chain(AgentRole.Developer)
    if not [name for name in developers if name not in missing]:
        looked = [missing[name] for name in developers] or [f"looked for {', '.join(catalog.looked_for())} on PATH"]
        hint = f"install one, or describe one under [[agents]] in {ground.MACHINE_FILE}"
        raise UserError(f"no usable agent: {'; '.join(looked)}", hint)
    roster = []
    for agent in config.roster:
        program = found[agent.id].program
        told = version(program, env) if program and catalog.kinds()[agent.kind].runs == "program" else ""
        roster.append(structs.replace(agent, program=program, version=told))
    bad = {
        agent.id: f"version {agent.version} {why}" for agent in roster if (why := catalog.misbehaves(agent.kind, agent.version))
    }
    return tuple(roster), tuple(f"agent {name}: {why}" for name, why in (missing | bad).items())


def _check_rights(config: Config, roster: tuple[Agent, ...]) -> str:
    """The sandbox mode of the run; a model with full rights needs one that shelters files, unless the machine says otherwise."""
    mode = jobs.mode_of(config.settings.shelter.mode)
    real = [agent.id for agent in roster if catalog.kinds()[agent.kind].runs in {"program", "client"}]
    if real and mode != "bwrap" and not config.open_rights:
        hint = "install bubblewrap (or in the clone: pip install '.[sandbox]'), or say --no-sandbox"
        raise UserError(f"{', '.join(real)} would run with full rights and no file-system sandbox here", hint)
    return mode


class Pick(NamedTuple):
    """What somebody typed after `fix RUN`."""

    findings: tuple[str, ...]
    reason: str
    allow_stale: bool = False


def _ask_fix(tools: Tools, run: RunId, lease: Lease, pick: Pick) -> None:
    """Write it down before any work. Raises UserError, one line each, with nothing recorded."""
    if not pick.reason.strip():
        raise UserError("a fix needs a reason", '--reason "why you want it now"')
    told = tuple(story.steps(tools.journal.entries(run)))
    found = ((f, step.after.chosen.change.tree) for step in told for review in step.reviewed().values() for f in review.findings)
    raised = {finding.id: (finding, tree) for finding, tree in found}  # every finding, and the tree in which it was seen
    state, ids = told[-1].after, tuple(dict.fromkeys(pick.findings))
    head, branch = _head(tools, state)
    if unknown := [name for name in ids if name not in raised]:
        raise UserError(f"run {run} has no finding {', '.join(unknown)}", f"it has: {', '.join(raised) or 'none'}")
    tree = Tree(git(tools.repo, "rev-parse", f"{head}^{{tree}}"))
    moved = state.done and head != state.commit
    stale = [name for name in ids if moved or raised[name][1] != tree]
    if stale and not pick.allow_stale:
        since = f"the work changed since {', '.join(stale)} was raised"
        raise UserError(since, "look whether it still holds, then: --allow-stale")
    if moved:  # the commits of whoever moved it are part of the work from now on, and one commit will stand for them
        snapshot.name_rescue(tools.repo, run, head)
    if state.done:
        here.pin(tools.repo, run, f"branches/{branch}", head)
    (tools.journal.folder(run) / "completion_marker").unlink(missing_ok=True)
    findings, reason = tuple(raised[name][0] for name in ids), pick.reason.strip()
    asked = ev.FixAsked(findings=findings, reason=reason, head=head, tree=tree, stale=bool(stale))
    tools.journal.append(lease, state.seq, tools.clock.now(), asked)


def _head(tools: Tools, state: RunState) -> tuple[Commit, str]:
    """Where the work stands, and its branch: the finished one as it is now, or what a blocked run holds."""
    ready = state.done and state.landing is not None and state.landing.mode == "branch"
    waits = blocked(state) is not None and state.trouble is None and not state.parked
    if state.winning is None or not (ready or waits):
        hint = "a fix is for a run that is ready or blocked" + ("" if state.done else ": nightcrew resume")
        raise UserError(f"run {state.started.run} is {conclusion(state).word}", hint)
    branch = branch_of(state, state.winner)
    if not state.done:
        return state.chosen.change.head, branch
    head, checkout = landing.standing(tools.repo, branch)
    if not head:
        raise UserError(f"branch {branch} is gone", "hand the rest off as a new task")
    if checkout:
        raise UserError(f"branch {branch} is checked out at {checkout}", "switch to another there: git switch -")
    return Commit(head), branch


def drive(
    run: RunId, env: Mapping[str, str], *, on_entry: local.OnEntry | None = None, wait: bool = True,
    take_over: bool = False, fix: Pick | None = None, enough: local.Enough = lambda _: False,
) -> local.Left:  # fmt: skip
    """Drive a run until it rests or stands as is `enough`, a `fix` written down first. Raises UserError: another process drives it."""
    tools = open_tools(run, env, ground.load_config(None, env, {}).max_turns)
    lease = tools.journal.acquire(run, take_over=take_over)
    if take_over:
        tools.turnstile.path.unlink(missing_ok=True)  # a frozen driver inside is alone with it; git still wants the tested tip
    try:
        if fix is not None:
            _ask_fix(tools, run, lease, fix)
        return local.drive(local.Driver(tools, run, lease, on_entry, enough), wait=wait)
    finally:
        tools.turnstile.leave()  # not before: a landing may go on in its thread when its handler is gone
        lease.release()


def begun(state: RunState) -> bool:
    """Whether all that is tried for nothing was tried, and no person is needed: from here on a run goes on by itself."""
    return looked(state) and not (state.done or state.questions or state.marker or state.parked)


def apart(run: RunId, env: Mapping[str, str]) -> str:
    """Have a process of its own drive a run (rulings 36) that does not wait for an answer; what to tell. Raises UserError with its last words."""
    journal, asked = open_journal(env), blocked(view(run, env))
    waits = asked and asked.told and not any(journal.words(run))
    pid, code = (0, EXITS["blocked"]) if waits else local.drive_apart(journal, run, env)
    stands, printed = conclusion(view(run, env)), journal.folder(run) / local.PRINTED
    if pid:
        return f"{stands.short} goes on by itself in process {pid}; nightcrew watch {stands.short} (what it prints: {printed})"
    if code != stands.exit_code:
        said = printed.read_text(errors="replace").strip().rpartition("\n")[2]
        raise UserError(said.removeprefix("nightcrew: ") or f"the driver of {run} left with {code}", f"all it said: {printed}")
    return f"{stands.short} {stands.headline}"


def resume(run: RunId, env: Mapping[str, str], limits: Mapping[str, str], *, reconfigure: bool) -> None:
    """Let a parked run go on, with other limits or settings if asked. Raises UserError when no agent of it is there any more (rulings 12)."""
    state = view(run, env)
    gone = [catalog.resolve(agent, env.get("PATH", "")).why_not for agent in state.started.roster]
    if all(gone) and not state.done and not reconfigure:
        hint = f"put one back, or take the settings as they are now: nightcrew resume --reconfigure {run}"
        raise UserError(f"no agent of run {run} is there any more: {'; '.join(gone)}", hint)
    if state.done and (reconfigure or limits):
        raise UserError(f"run {run} is over already", "hand off what is left as a new task")
    if reconfigure or limits:
        new = ground.load_config(open_repo(open_journal(env).place(state.started.repo), env), env, limits)
        wanted = structs.asdict(new.limits).items()
        mine = {name: limit for name, limit in wanted if f"limits.{name.removesuffix('_s')}" in limits}
        word = ev.ConfigChanged(limits=structs.replace(state.started.limits, **mine), why="limits")
        if reconfigure:
            roster, why = _roster(new, env)[0], "reconfigured"
            word = ev.ConfigChanged(limits=new.limits, roster=roster, roles=new.roles, settings=new.settings, why=why)
        say(run, word, env)
    if state.parked or any(isinstance(word, ev.ParkAsked) for _, word in open_journal(env).words(run)):
        say(run, ev.ResumeAsked(), env)


def say(run: RunId, word: ev.Event, env: Mapping[str, str]) -> None:
    """Leave a word for whoever drives the run, now or later."""
    open_journal(env).say(run, time.time(), word)


def stop(run: RunId, env: Mapping[str, str], how: Literal["park", "now", "cancel"]) -> None:
    """`park` at the next safe point, or `now` with everything rescued; `cancel`: end it, its work rescued and a failure marker written."""
    if view(run, env).done:
        raise UserError(f"run {run} is over already")
    say(run, ev.CancelAsked() if how == "cancel" else ev.ParkAsked(now=how == "now"), env)


def answer(run: RunId, env: Mapping[str, str], text: str, question: str = "") -> str:
    """Answer the question the run asks (the only one, or the one named); which it was. Raises UserError for what is no answer to it."""
    state = view(run, env)
    names = ", ".join(state.questions)
    chosen = question or (names if len(state.questions) == 1 else "")
    if not names:
        raise UserError(f"run {run} asks nothing")
    if chosen not in state.questions:
        raise UserError(f"run {run} does not ask '{question}'" if question else "which question?", f"it asks: {names}")
    words, word = answers(state.questions[chosen]), text.strip().lower()
    meant = {"yes": words[0], "y": words[0], "ok": words[0], "no": words[-1], "n": words[-1]}.get(word, word)
    if meant not in words:
        raise UserError(f"'{text}' does not answer {chosen}", f"it may be: {', '.join(words)}")
    say(run, ev.Answered(question=chosen, text=meant), env)
    return chosen


def driven(run: RunId, env: Mapping[str, str]) -> int:
    """The pid of the process that drives the run now; 0 when nobody does."""
    return open_journal(env).holder(run) or 0


def view(run: RunId, env: Mapping[str, str]) -> RunState:
    """The run as it stands, for those who only look."""
    return local.folded(open_journal(env), run)


def diff(run: RunId, env: Mapping[str, str], label: str = "") -> str:
    """The work of a run as a patch: of the candidate with that label, else the commit that lands, what stands in its workspaces, was rescued, or is kept."""
    state = view(run, env)
    pool = pool_of(open_journal(env).place(state.started.repo), env)
    if label:
        if not (one := state.candidates.get(Label(label.upper()))):
            raise UserError(f"run {run} has no candidate {label}", f"it has: {', '.join(sorted(state.candidates)) or 'none yet'}")
        if not git(pool.repo, "rev-parse", "-q", "--verify", f"{one.change.head}^{{commit}}", ok=(0, 1, 128)):
            raise UserError(f"the work of {one.label} is not there any more", "clean cleared it away")
        return git(pool.repo, "diff", "--no-ext-diff", one.start, one.change.head)
    if not state.winner and len(state.candidates) > 1:
        raise UserError("whose work goes on is not decided", f"name one of {', '.join(sorted(state.candidates))} after the run")
    start = f"{state.commit}^" if state.commit else state.winning.start if state.winning else state.base
    for place, work in _works(pool, state, env):
        if work and (patch := git(place, "diff", "--no-ext-diff", start, work)):
            return patch
    raise UserError(f"run {run} has changed nothing so far", "nightcrew show tells where it stands")


def _works(pool: workspace.Pool, state: RunState, env: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    """Where work of a run is, newest first, and its commit or tree."""
    run, winner = state.started.run, state.winning or next(iter(state.candidates.values()), None)
    if state.commit:
        yield pool.repo, state.commit
    elif not driven(run, env):  # else somebody writes there
        for ws in sorted(workspace.leased(pool, run), key=lambda ws: winner is None or ws.slot != state.slot(winner.seat)):
            with suppress(slots.WorkspaceLost):
                snapshot.sound(pool.repo, ws)
                yield ws, snapshot.files_tree(ws, snapshot.survey(ws))[0]
    if state.done:
        pattern = f"refs/nightcrew/rescue/{run}/[0-9]*"
        yield pool.repo, git(pool.repo, "for-each-ref", "--sort=-version:refname", "--count=1", "--format=%(refname)", pattern)
    if winner and winner.changed:
        yield pool.repo, winner.change.head


class Cleaned(Struct, frozen=True):
    """What `clean` did for one run: what went, and what stays with the reason."""

    run: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]


def clean(cwd: Path, env: Mapping[str, str], run: str | None = None) -> list[Cleaned]:
    """Remove what runs of this repository left that is proven landed or rescued; list the rest. A run that is not over is left alone."""
    journal, pool = open_journal(env), pool_of(cwd, env)
    mine = journal.recent(10_000, repo_id(pool.repo))
    return [_clean_one(journal, pool, name) for name in ([journal.find(run)] if run is not None else mine)]


def _clean_one(journal: Journal, pool: workspace.Pool, run: RunId) -> Cleaned:
    state, repo = local.folded(journal, run), pool.repo
    if not state.done:
        return Cleaned(run, (), (f"the run is not over ({state.phase}): nightcrew resume, or cancel",))
    landed, held = state.landing, ("for-each-ref", "--format=%(refname)", f"refs/nightcrew/{run}/[A-H]")
    branch = landed.branch if landed and landed.mode == "branch" and state.phase is PipelinePhase.Complete else ""
    where = here.target(repo, state.started.target, state.started.remote or "none") if branch else None
    waits = where is not None and not has_change(repo, here.tip(repo, where).commit, state.commit, state.commit)
    before, lost = git(repo, *held).split(), handlers.losers(state) if waits else ()
    slots, kept = handlers.give_back(pool, run, landed.commit if landed else "", lost=lost)
    gone = sorted({*before}.difference(git(repo, *held).split()))
    removed, name = (*(f"workspace {slot}" for slot in slots), *gone), f"refs/heads/{branch}"
    if where is not None:
        if waits:
            kept = (*kept, f"branch {branch}: not landed on {'/'.join(filter(None, (where.remote, where.branch)))}")
        elif git(repo, "rev-parse", "-q", "--verify", name, ok=(0, 1)) == state.commit:
            git(repo, "update-ref", "-d", name, state.commit)
            removed = (*removed, f"branch {branch}")
            told = ev.Noted(text=f"{GONE} {branch}: {state.started.target} has its commit")
            with (lease := journal.acquire(run)).lock:
                journal.append(lease, state.seq, time.time(), told)
    return Cleaned(run, removed, kept)
