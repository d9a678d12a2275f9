"""One turn of one agent: the ledger first, then a supervised process, then its adapter's judgement. Adopts what runs already."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from nightcrew.agents import base, catalog
from nightcrew.agents.base import Judged, Turn
from nightcrew.core import events as ev
from nightcrew.core.effects import StartTurn
from nightcrew.core.phases.catalog import READERS
from nightcrew.core.roster import Agent
from nightcrew.core.state import agent_of, line
from nightcrew.core.trouble import NODE as DEV_FIX
from nightcrew.core.work import Brief, Class, Outcome
from nightcrew.engine import commands, jobs
from nightcrew.engine.tools import Ctx, off
from nightcrew.git import slots, snapshot, workspace
from nightcrew.git.collect import head_of
from nightcrew.git.sealed import Checkout, run as git_run
from nightcrew.journal.blobs import Blobs
from nightcrew.ledger import Cooling
from nightcrew.proc import job
from nightcrew.proc.job import Absent, Exit, Job, Lost, Running
from nightcrew.redact import nameless, names

FENCE = b"~~~~~~~~"
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 2.0  # between two looks for a free slot of the machine: turns may be short, waits long


async def run(effect: StartTurn, ctx: Ctx) -> ev.EffectAnswer:
    """Ask the agent, or go on waiting for the answer it is giving already."""
    agent = agent_of(ctx.state(), effect.agent)
    turn = _turn(effect, ctx, agent)
    found = await off(job.look, ctx.folder)
    if isinstance(found, Absent):
        refused = await _admit(effect, ctx, agent)
        if refused is not None:
            return refused
        if effect.node == DEV_FIX:
            await off(commands.look_before, ctx, effect.slot)
        found = await off(_start, effect, ctx, agent, turn)
    if not ctx.begun:
        ctx.tell(ev.EffectBegun(key=effect.key))
    end = await jobs.ended(ctx.folder, found)
    if effect.node == DEV_FIX:
        await off(commands.spare_made, ctx, effect.slot)
    if outside := await off(_meddled_outside, effect, ctx):
        ctx.tell(ev.Noted(text=outside))
    return await off(_over, effect, ctx, agent, turn, end)


def left(effect: StartTurn, ctx: Ctx) -> str:
    """A turn that was stopped gives its place back; the name of the ref that holds its unsaved work, or nothing."""
    ctx.tools.ledger.release(ctx.folder)
    with suppress(slots.WorkspaceLost):
        return snapshot.rescue(ctx.tools.repo, ctx.workspace(effect.slot), ctx.run).ref
    return ""


async def _admit(effect: StartTurn, ctx: Ctx, agent: Agent) -> ev.EffectAnswer | None:
    """Wait for a machine slot; or why the agent cannot be asked: it cools down, its program is gone. Raises WorkspaceLost."""
    await off(ctx.verified, effect.slot)
    if why_not := catalog.resolve(agent, ctx.tools.operator_env.get("PATH", "")).why_not:
        return ev.TurnEnded(key=effect.key, outcome=Outcome(kind=Class.ConfigError, reason=line(why_not)))
    look_s = FIRST_LOOK_S
    while found := await off(ctx.tools.ledger.ask, agent, ctx.folder, ctx.tools.clock.now(), ctx.tools.max_turns):
        if isinstance(found, Cooling):
            how = "assumed" if found.losses else ""
            until, window, why = found.until, found.window, found.why
            return ev.AgentCooling(key=effect.key, agent=agent.id, until=until, window=window, source=how, why=why)
        await ctx.tools.clock.sleep(look_s)
        look_s = min(2 * look_s, LONGEST_LOOK_S)
    return None


def _turn(effect: StartTurn, ctx: Ctx, agent: Agent) -> Turn:
    seat, mine = ctx.state().seats.get(effect.seat), ctx.tools.operator_env
    login = {name: mine[name] for name in catalog.kinds()[agent.kind].passes if name in mine}
    return Turn(
        program=catalog.resolve(agent, mine.get("PATH", "")).program or agent.program, prompt_file=ctx.folder / "prompt.md",
        cwd=ctx.workspace(effect.slot).path, command=agent.command, env=login | ctx.tools.secrets.get(agent.id, {}),
        model=agent.model, session=effect.session, resume=effect.resume, read_only=effect.read_only,
        prior_usd=seat.usd if seat and effect.resume else 0.0, prior_tokens=seat.tokens if seat and effect.resume else 0,
        run=ctx.run, agent=agent.id, node=effect.node, seat=effect.seat, label=effect.label,
    )  # fmt: skip


def _start(effect: StartTurn, ctx: Ctx, agent: Agent, turn: Turn) -> Running | Exit | Lost:
    ctx.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn.prompt_file.write_bytes(composed(effect.brief, ctx.tools.blobs))
    if ctx.tools.mode != "bwrap":  # else a turn cannot write there
        (ctx.folder / "checkout").write_bytes(b"\0".join(_checkout(ctx)))
    launch = catalog.adapter(agent.kind).command(turn)
    limits = ctx.state().started.limits
    env = jobs.environment(ctx, ctx.folder, {**launch.env, **turn.env})
    programs = (path for path in map(Path, launch.argv) if path.is_absolute() and path.exists())
    home, seat = env.get("HOME", "/"), ctx.tools.journal.folder(ctx.run) / "seats" / effect.seat
    login = [jobs.expand(path, home) for path in launch.login_paths]
    private = [(seat / str(n), jobs.expand(path, home)) for n, path in enumerate(launch.session_paths)]
    for path in (*login, *(path for _, path in private)):
        # A folder that the program makes at first use; it could not where all around is read-only.
        if path.suffix != ".json" and not path.exists():
            path.mkdir(mode=0o700, parents=True)
    box = jobs.sandbox(
        ctx, ws := ctx.workspace(effect.slot), ctx.folder, read_only=effect.read_only, writable=login, private=private,
        seen=[jobs.door(env), *(path for path in programs if path not in {*login, ws.path})],
    )  # fmt: skip
    if slots.read_record(ctx.tools.pool.root, effect.slot).sees:
        # A judge's workspace has all that it may see; the repository, and what other agents' programs keep, tell who made what.
        secrets, others = ctx.tools.secrets, (one for one in ctx.state().started.roster if one.id != agent.id)
        turns = ((o.kind, replace(turn, command=o.command, program=o.program, env=secrets.get(o.id, {}))) for o in others)
        launches = (catalog.adapter(kind).command(other) for kind, other in turns)
        kept = (jobs.expand(path, home) for other in launches for path in (*other.login_paths, *other.session_paths))
        shut = sorted({ctx.tools.repo.git_dir, *kept}.difference(login, (path for _, path in box.private)))
        box = replace(box, read_only=tuple(path for path in box.read_only if path not in shut), hidden=(*box.hidden, *shut))
    order = Job(
        argv=launch.argv, cwd=turn.cwd, env=env, mark=effect.key, stdin=turn.prompt_file, sandbox=box,
        total_s=effect.total_s or limits.turn_s, idle_s=limits.idle_s and max(limits.idle_s, launch.quiet_s),
        first_output_s=limits.first_output_s and max(limits.first_output_s, launch.quiet_s),
        stop_signals=launch.stop_signals, closing=launch.closing, loops=launch.loops,
    )  # fmt: skip
    return job.start(ctx.folder, order)


def composed(brief: Brief, blobs: Blobs) -> bytes:
    """The prompt: the brief's parts in order, blobs put in and cut, words from outside fenced as data."""
    texts = []
    for part in brief.parts:
        text = part.text.encode() if part.blob is None else blobs.get(part.blob)
        if part.limit and len(text) > part.limit:
            end = text[-part.limit :].lstrip(bytes(range(0x80, 0xC0)))  # no half a character
            text = b"[%d bytes left out]\n%b" % (len(text) - part.limit, end)
        fence = FENCE
        while fence in text:
            fence += b"~"
        texts.append(fence + b"\n" + text.rstrip(b"\n") + b"\n" + fence if part.quoted else text.rstrip())
    return b"\n\n".join(texts) + b"\n"


def _over(effect: StartTurn, ctx: Ctx, agent: Agent, turn: Turn, end: Exit | Lost) -> ev.TurnEnded | ev.TurnLost:
    """What a turn came to. Of one that vanished only the conversation is taken, from what it had printed."""
    out, err = jobs.output(ctx.folder / "stdout"), jobs.output(ctx.folder / "stderr", 64 * 1024, 1024 * 1024)
    now = ctx.tools.clock.now()
    seen = Exit(code=137, signal=9, stopped_by="", began_at=now, ended_at=now) if isinstance(end, Lost) else end
    how, zone = base.Exit(seen.code, seen.signal, seen.stopped_by), ctx.tools.zone or time.tzname[0]
    judged = catalog.adapter(agent.kind).judge(turn, how, out, err, seen.ended_at, zone)
    answer: ev.TurnEnded | ev.TurnLost = ev.TurnLost(key=effect.key, session=judged.session)
    if isinstance(end, Exit):
        answer = ev.TurnEnded(key=effect.key, outcome=_outcome(effect, ctx, agent, judged, end))
        # The machine knows before anything is decided on it: who works again, who cools down until when.
        if judged.kind is Class.Ok:
            ctx.tools.ledger.warm(agent, end.began_at)
        elif judged.kind is Class.Quota:
            ctx.tools.ledger.cool(agent, end.ended_at, judged.reset_at, judged.window, line(judged.reason))
    ctx.tools.ledger.release(ctx.folder)
    return answer


def _outcome(effect: StartTurn, ctx: Ctx, agent: Agent, judged: Judged, end: Exit) -> Outcome:
    kind, reason, answer = judged.kind, line(judged.reason), judged.answer or ""
    violated = effect.read_only and _meddled(effect, ctx)  # law 8
    if violated and kind is Class.Ok:
        kind, reason, answer = Class.InvalidOutput, "a seat that may only read changed its workspace: the answer is void", ""
    if answer and slots.read_record(ctx.tools.pool.root, effect.slot).sees:  # what one judge says the others read
        answer = nameless(answer, names_of(ctx))
    return Outcome(
        kind=kind, reason=reason or ("" if kind is Class.Ok else kind.value), violated=violated,
        answer=ctx.tools.blobs.put(answer.encode()) if answer else None,
        report=READERS[effect.reads](answer) if effect.reads in READERS and answer else None, session=judged.session,
        reset_at=judged.reset_at, window=judged.window, retry_after_s=judged.retry_after_s, tokens=judged.tokens,
        usd=judged.usd if judged.usd is not None else agent.price, exit_code=end.code, stopped_by=end.stopped_by,
        took_s=round(end.ended_at - end.began_at, 3),
    )  # fmt: skip


def names_of(ctx: Ctx) -> re.Pattern[str]:
    """What finds the words that tell of the run's agents; a word of the task tells of nobody."""
    task = ctx.tools.blobs.get(ctx.state().started.task.text).decode(errors="replace")
    return names((word for agent in ctx.state().started.roster for word in (agent.id, agent.model)), task)


def _meddled(effect: StartTurn, ctx: Ctx) -> bool:
    """Whether the turn changed its workspace: rescued and undone, and still known when we die between that and saying so."""
    known, space = ctx.folder / "meddled", ctx.state().workspaces.get(effect.seat)
    try:
        ws = ctx.verified(effect.slot)
        start, seen = space.start if space else head_of(ws)[0], snapshot.survey(ws)
        if not seen.unsaved and seen.head == start:
            return known.exists()
    except slots.WorkspaceLost:
        return True
    known.touch()
    workspace.reset(ctx.tools.pool, ws, start)
    return True


def _checkout(ctx: Ctx) -> set[bytes]:
    """How the person's checkout differs from its commit, as git tells it."""
    top, asks = ctx.tools.repo.work_tree, ("status", "--porcelain", "-z")
    return set(git_run(Checkout(top, ctx.tools.operator_env), *asks, ok=(0, 126, 128)).out.split(b"\0")) if top else set()


def _meddled_outside(effect: StartTurn, ctx: Ctx) -> str:
    """What to tell when the person's checkout is not as it was before the turn; empty when it is. It may have been the person."""
    noted = ctx.folder / "checkout"
    before = set(noted.read_bytes().split(b"\0")) if noted.exists() else set()
    changed = sorted(os.fsdecode(entry[3:]) for entry in before ^ _checkout(ctx)) if noted.exists() else []
    told = f"your checkout changed while {effect.agent} worked in seat {effect.seat} without a sandbox for files"
    return line(f"{told}: {', '.join(changed[:9])}", 600) if changed else ""
