"""One turn of one agent: the ledger first, then a supervised process, then its adapter's judgement. Adopts what runs already."""

import time
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from nightcrew.agents import catalog
from nightcrew.agents.base import Adapter, Judged, Launch, Turn
from nightcrew.core.effects import StartTurn
from nightcrew.core.events import AgentCooling, EffectAnswer, EffectBegun, TurnEnded, TurnLost, WorkspaceLost
from nightcrew.core.phases.catalog import READERS
from nightcrew.core.roster import Agent
from nightcrew.core.state import agent_of, line
from nightcrew.core.work import Brief, Class, Outcome, Part
from nightcrew.engine import jobs, shelter
from nightcrew.engine.tools import Ctx, off
from nightcrew.git import slots, snapshot, workspace
from nightcrew.git.slots import Workspace
from nightcrew.git.sync import head_of
from nightcrew.journal.blobs import Blobs
from nightcrew.ledger import Cooling, Full, Loss
from nightcrew.proc import job
from nightcrew.proc.job import Absent, Exit, Job, Lost
from nightcrew.proc.sandbox import Sandbox

FENCE = "~~~~~~~~"
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 2.0
"""Between two looks for a free slot of the machine: turns may be short, waits long."""


async def run(effect: StartTurn, ctx: Ctx) -> EffectAnswer:
    """Ask the agent, or go on waiting for the answer it is giving already."""
    agent = agent_of(ctx.state(), effect.agent)
    adapter = catalog.adapter(agent.kind)
    ws = await off(slots.lookup, ctx.tools.pool.root, effect.slot, ctx.tools.operator_env)
    turn = _turn(effect, ctx, adapter, agent, ws)
    found = await off(job.look, ctx.folder)
    if isinstance(found, Absent):
        refused = await _admit(effect, ctx, agent, ws)
        if refused is not None:
            return refused
        await off(_write_prompt, effect, ctx)
        found = await off(_start, effect, ctx, adapter, turn, ws)
    if not ctx.begun:
        ctx.tell(EffectBegun(key=effect.key))
    end = await jobs.ended(ctx.folder, found)
    if isinstance(end, Lost):
        await off(ctx.tools.ledger.release, ctx.folder)
        return TurnLost(key=effect.key, session=await off(_told_session, ctx, adapter, turn))
    judged = await off(_judge, ctx, adapter, turn, end)
    outcome = await off(_outcome, effect, ctx, agent, judged, end)
    if effect.read_only:
        outcome = await off(_looked_only, effect, ctx, ws, outcome)
    await off(_tell_ledger, ctx, agent, judged, end)
    await off(ctx.tools.ledger.release, ctx.folder)
    return TurnEnded(key=effect.key, outcome=outcome)


async def stop(effect: StartTurn, ctx: Ctx) -> str:
    """End the turn and everything it started; the name of the ref that holds its unsaved work, or nothing."""
    await jobs.stopped(ctx.folder)
    await off(ctx.tools.ledger.release, ctx.folder)
    return await off(_rescued, effect.slot, ctx)


def _rescued(slot: str, ctx: Ctx) -> str:
    ws = slots.lookup(ctx.tools.pool.root, slot, ctx.tools.operator_env)
    try:
        slots.verify(ws)
    except slots.WorkspaceLost:
        return ""
    saved = snapshot.rescue(ctx.tools.repo, ws, ctx.run)
    return saved.ref if saved else ""


# ── before it runs ────────────────────────────────────────────────────────────────────────────────────────────────


async def _admit(effect: StartTurn, ctx: Ctx, agent: Agent, ws: Workspace) -> EffectAnswer | None:
    """Wait for a machine slot; or why the agent cannot be asked: it cools down, its workspace or its program is gone."""
    try:
        await off(slots.verify, ws)
    except slots.WorkspaceLost as lost:
        return WorkspaceLost(key=effect.key, slot=effect.slot, reason=str(lost))
    resolved = catalog.resolve(agent, ctx.tools.operator_env.get("PATH", ""))
    if resolved.why_not:
        outcome = Outcome(kind=Class.ConfigError, reason=line(resolved.why_not))
        return TurnEnded(key=effect.key, outcome=outcome)
    look_s = FIRST_LOOK_S
    while True:
        granted = await off(ctx.tools.ledger.ask, agent, ctx.folder, ctx.tools.clock.now(), ctx.tools.max_turns)
        match granted:
            case Cooling(until=until, window=window, source=source):
                return AgentCooling(key=effect.key, agent=agent.id, until=until, window=window, source=source)
            case Full():
                await ctx.tools.clock.sleep(look_s)
                look_s = min(2 * look_s, LONGEST_LOOK_S)
            case _:
                return None


def _own(ctx: Ctx, adapter: Adapter) -> dict[str, str]:
    """Of the person's environment, what this program's login needs."""
    mine = ctx.tools.operator_env
    return {name: mine[name] for name in adapter.passes if name in mine}


def _turn(effect: StartTurn, ctx: Ctx, adapter: Adapter, agent: Agent, ws: Workspace) -> Turn:
    seat = ctx.state().seats.get(effect.seat)
    resolved = catalog.resolve(agent, ctx.tools.operator_env.get("PATH", ""))
    return Turn(
        program=resolved.program or agent.program,
        prompt_file=ctx.folder / "prompt.md",
        cwd=ws.path,
        command=agent.command,
        env=_own(ctx, adapter) | ctx.tools.secrets.get(agent.id, {}),
        model=agent.model,
        session=effect.session,
        resume=effect.resume,
        read_only=effect.read_only,
        prior_usd=seat.usd if seat and effect.resume else 0.0,
        run=ctx.run,
        agent=agent.id,
        node=effect.node,
        seat=effect.seat,
        label=effect.label,
        n=int(effect.key.rsplit("/", 1)[1]) + 1,
    )


def _start(effect: StartTurn, ctx: Ctx, adapter: Adapter, turn: Turn, ws: Workspace) -> job.Running | Exit | Lost:
    launch = adapter.command(turn)
    limits, settings = ctx.state().started.limits, ctx.state().settings
    env = shelter.environment(ctx.tools, ctx.folder, {**launch.env, **turn.env})
    order = Job(
        argv=launch.argv,
        cwd=ws.path,
        env=env,
        mark=effect.key,
        stdin=launch.stdin,
        sandbox=_sandbox(ctx, launch, ws, effect, env, network=settings.shelter.network),
        total_s=effect.total_s or limits.turn_s,
        idle_s=limits.idle_s,
        first_output_s=limits.first_output_s,
        stop_signals=tuple(pair for pair in launch.stop_signals if pair[0] != "KILL"),
    )
    return job.start(ctx.folder, order)


def _sandbox(
    ctx: Ctx, launch: Launch, ws: Workspace, effect: StartTurn, env: dict[str, str], *, network: bool
) -> Sandbox:
    home = env.get("HOME", "/")
    seat = ctx.tools.journal.folder(ctx.run) / "seats" / effect.seat
    login = [shelter.expand(path, home) for path in launch.login_paths]
    for path in login:
        # A folder that the program makes at first use; it could not where all around is read-only.
        if path.suffix != ".json" and not path.exists():
            path.mkdir(mode=0o700, parents=True)
    return shelter.sandbox(
        ctx.tools,
        ws,
        ctx.folder,
        read_only=effect.read_only,
        network=network,
        writable=login,
        seen=[path for path in map(Path, launch.argv) if path.is_absolute() and path.exists() and path not in login],
        private=[(seat / str(n), shelter.expand(path, home)) for n, path in enumerate(launch.session_paths)],
    )


def _write_prompt(effect: StartTurn, ctx: Ctx) -> None:
    ctx.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = ctx.folder / "prompt.md"
    aside = path.with_suffix(".part")
    aside.write_bytes(composed(effect.brief, ctx.tools.blobs))
    aside.chmod(0o600)
    aside.rename(path)


def composed(brief: Brief, blobs: Blobs) -> bytes:
    """The prompt: the brief's parts in order, blobs put in and cut, words from outside fenced as data."""
    return b"\n\n".join(_part(part, blobs) for part in brief.parts) + b"\n"


def _part(part: Part, blobs: Blobs) -> bytes:
    text = part.text.encode() if part.blob is None else blobs.get(part.blob)
    if part.limit and len(text) > part.limit:
        text = (
            b"["
            + str(len(text) - part.limit).encode()
            + b" bytes left out]\n"
            + text[-part.limit :].lstrip(_CONTINUATIONS)
        )
    if not part.quoted:
        return text.rstrip()
    fence = FENCE.encode()
    while fence in text:
        fence += b"~"
    return fence + b"\n" + text.rstrip(b"\n") + b"\n" + fence


_CONTINUATIONS = bytes(range(0x80, 0xC0))

# ── when it has ended ─────────────────────────────────────────────────────────────────────────────────────────────


def _judge(ctx: Ctx, adapter: Adapter, turn: Turn, end: Exit) -> Judged:
    out, err = jobs.output(ctx.folder / "stdout"), jobs.output(ctx.folder / "stderr", 64 * 1024, 1024 * 1024)
    return adapter.judge(turn, end, out, err, end.ended_at, ctx.tools.zone or time.tzname[0])


def _outcome(effect: StartTurn, ctx: Ctx, agent: Agent, judged: Judged, end: Exit) -> Outcome:
    answer = judged.answer or ""
    return Outcome(
        kind=judged.kind,
        reason=line(judged.reason) or ("" if judged.kind is Class.Ok else judged.kind.value),
        answer=ctx.tools.blobs.put(answer.encode()) if answer else None,
        report=READERS[effect.reads](answer) if effect.reads in READERS and answer else None,
        session=judged.session,
        reset_at=judged.reset_at,
        window=judged.window,
        retry_after_s=judged.retry_after_s,
        tokens=judged.tokens,
        usd=judged.usd if judged.usd is not None else agent.price,
        exit_code=end.code,
        stopped_by=end.stopped_by,
        took_s=round(end.ended_at - end.began_at, 3),
    )


class Vanished(NamedTuple):
    """The end of a turn that nobody saw, as an adapter is told it."""

    code: int = 137
    signal: int = 9
    stopped_by: str = ""


def _told_session(ctx: Ctx, adapter: Adapter, turn: Turn) -> str:
    """The conversation that a vanished turn had told of, from what it printed."""
    out = jobs.output(ctx.folder / "stdout")
    return adapter.judge(turn, Vanished(), out, b"", ctx.tools.clock.now(), "UTC").session


def _looked_only(effect: StartTurn, ctx: Ctx, ws: Workspace, outcome: Outcome) -> Outcome:
    """A read-only seat that changed its workspace gave a void answer; what it did is kept in a rescue ref, then undone (law 8)."""
    if not _meddled(effect, ctx, ws):
        return outcome
    if outcome.kind is not Class.Ok:
        return structs.replace(outcome, violated=True)
    reason = "a seat that may only read changed its workspace: the answer is void"
    return structs.replace(outcome, kind=Class.InvalidOutput, reason=reason, answer=None, report=None, violated=True)


def _meddled(effect: StartTurn, ctx: Ctx, ws: Workspace) -> bool:
    """Whether the turn changed its workspace. It stays known when we die between undoing it and saying so."""
    known = ctx.folder / "meddled"
    space = ctx.state().workspaces.get(effect.seat)
    start = space.start if space else head_of(ws)[0]
    try:
        slots.verify(ws)
        if not snapshot.survey(ws).dirty and head_of(ws)[0] == start:
            return known.exists()
    except slots.WorkspaceLost:
        return True
    known.touch()
    workspace.reset(ctx.tools.pool, ws, start)
    return True


def _tell_ledger(ctx: Ctx, agent: Agent, judged: Judged, end: Exit) -> None:
    """What the machine should know before anything is decided on it: who cools down until when, who works again."""
    match judged.kind:
        case Class.Ok:
            ctx.tools.ledger.warm(agent, end.began_at)
        case Class.Quota:
            ctx.tools.ledger.cool(
                Loss(agent, end.ended_at, judged.reset_at, window=judged.window, why=line(judged.reason), run=ctx.run)
            )
        case _:
            pass
