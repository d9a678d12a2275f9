"""Planning: the workspace, the first look at the gate on the base, and one plan. Best effort: without a plan the task is the plan."""

from msgspec import structs

from nightcrew.core import brief as b, chain, events, panel, reading, rooms
from nightcrew.core.ids import Label, SeatKey, impl_seat
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Advising, Marker, Phase, RunState, Want, asking, enter, iteration_base, line, red_of
from nightcrew.core.trouble import leave
from nightcrew.core.work import Brief, Outcome, PipelinePhase, Purpose

NODE, SEAT, ADVISE = "plan", SeatKey("plan"), "advise"
SHAPE = '{"approach": "…", "tradeoff": "what it costs", "naive": "why not the obvious way", "risks": "…", "files": "…"}'
FIRST, ADVISORS = Label("A"), 3
RED_BASE = "red-base"


def _wants(state: RunState) -> tuple[Want, ...]:
    missing, verify = rooms.author(state, FIRST), state.settings.verify
    decisive = tuple(dict.fromkeys((*verify.gate, *verify.check)))
    if not missing and state.preflight is None and decisive:
        return rooms.commands(state, Purpose.Preflight, impl_seat(FIRST), decisive, _preflighted)
    if missing or not _asks(state):
        return missing
    base, chains, pipeline = iteration_base(state), state.started.roles, state.settings.pipeline
    many = pipeline.advisors or (ADVISORS if pipeline.advise else 0)
    advisors = panel.seats("advisor", many if chains.chain(AgentRole.Advisor) else 0)
    if waited := panel.awaited(state, "advising", "proposals", advisors, ADVISE):
        return panel.ask(state, waited, base, lambda seat: _advise(state, seat, advisors))
    wish = chain.Wish(
        NODE, SEAT, AgentRole.Planner, Answers.Text, lambda _memory: _brief(state),
        lambda now, said: now.but(plan=said.answer if isinstance(said, Outcome) else now.plan, planned=True),
    )  # fmt: skip
    if state.advising.proposals and chains.chain(AgentRole.Synthesizer):
        wish = wish._replace(node="synthesize", seat=SeatKey("synthesis"), role=AgentRole.Synthesizer)
    return rooms.reader(state, wish.seat, base) or chain.ask(state, wish)


def _advise(state: RunState, seat: SeatKey, seats: tuple[SeatKey, ...]) -> chain.Wish:
    agents = panel.bench(state.started.roles.chain(AgentRole.Advisor), len(seats), seats.index(seat))
    return chain.Wish(
        ADVISE, seat, AgentRole.Advisor, Answers.Structured, lambda _memory: _brief(state, advises=True),
        lambda now, said: panel.heard(now, "advising", "proposals", seat, said), reads=ADVISE, shape=SHAPE, reasks=1, agents=agents,
    )  # fmt: skip


def _brief(state: RunState, *, advises: bool = False) -> Brief:
    proposals = (structs.asdict(advice).items() for advice in state.advising.proposals.values())
    said = ("\n".join(f"{part}: {text}" for part, text in proposal if text) for proposal in proposals)
    told = [f"## Proposal {n}\n\n{text}" for n, text in enumerate(said, 1)]
    ask = (
        "Write the plan that another engineer will follow: what to change and where, in which order, which tests show that it works, "
        "and what could go wrong. Be short and name files. Do not change anything."
    )
    if told:
        ask += " Take the best of the proposals and decide where they differ."
    if advises:
        told, ask = [], f"Propose how to do it; others propose too.\n\n{reading.json_answer(SHAPE)}"
    known = (b.LOOK_ONLY, *b.task(state), *b.preflight(state))
    return b.brief(*known, *(("# What advisors propose", *told) if told else ()), f"# What you are asked\n\n{ask}")


def _asks(state: RunState) -> bool:
    return state.settings.pipeline.plan and bool(state.started.roles.chain(AgentRole.Planner)) and not state.planned


def _preflighted(state: RunState, event: events.CommandsEnded) -> RunState:
    state = state.but(preflight=event)
    if hopeless := next((r for r in event.results if r.timed_out or r.code in {126, 127}), None):
        why = "did not end in time" if hopeless.timed_out else f"cannot run (exit status {hopeless.code})"
        reason = f"preflight: `{hopeless.command}` {why}: {line(hopeless.output.tail) or 'no output'}"
        return enter(state, PipelinePhase.AwaitingDevFix, refused=reason, marker=Marker(is_failure=True, reason=reason))
    if event.green or state.settings.verify.base != "green":
        return state
    red = red_of(event.results)[0]
    text = f"The base is red: `{red.command}` exits with {red.code}. Start all the same?"
    return asking(state, RED_BASE, text, holds=True, how="yes | no")


PHASE = Phase(
    lambda state: rooms.all_rewound(state.but(planned=False, plan=None, advising=Advising())),
    arrived=lambda state: state if _wants(state) or _asks(state) else leave(state, PipelinePhase.Development), wants=_wants,
)  # fmt: skip
