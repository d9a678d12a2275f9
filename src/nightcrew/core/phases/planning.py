"""Planning: the workspace, the first look at the gate on the base, and one plan. Best effort: without a plan the task is the plan."""

from nightcrew.core import brief as b, chain, events, rooms
from nightcrew.core.ids import Label, SeatKey, impl_seat
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Marker, Phase, RunState, Want, asking, enter, iteration_base, line, red_of
from nightcrew.core.trouble import leave
from nightcrew.core.work import Brief, Failure, Outcome, PipelinePhase, Purpose

NODE, SEAT = "plan", SeatKey("plan")
FIRST = Label("A")
RED_BASE = "red-base"


def _wants(state: RunState) -> tuple[Want, ...]:
    missing, verify = rooms.author(state, FIRST), state.settings.verify
    decisive = tuple(dict.fromkeys((*verify.gate, *verify.check)))
    if not missing and state.preflight is None and decisive:
        return rooms.commands(state, Purpose.Preflight, impl_seat(FIRST), decisive, _preflighted)
    if missing or not _asks(state):
        return missing
    wish = chain.Wish(NODE, SEAT, AgentRole.Planner, Answers.Text, lambda _memory: _brief(state), _planned)
    return rooms.reader(state, SEAT, iteration_base(state)) or chain.ask(state, wish)


def _planned(state: RunState, said: Outcome | Failure) -> RunState:
    return state.but(plan=said.answer if isinstance(said, Outcome) else state.plan, planned=True)


def _brief(state: RunState) -> Brief:
    return b.brief(
        b.LOOK_ONLY,
        *b.task(state),
        *b.preflight(state),
        "# What you are asked\n\nWrite the plan that another engineer will follow: what to change and where, in which order, which "
        "tests show that it works, and what could go wrong. Be short and name files. Do not change anything.",
    )


def _asks(state: RunState) -> bool:
    can = bool(state.started.roles.chain(AgentRole.Planner))
    return state.settings.pipeline.plan and can and not state.planned


def _preflighted(state: RunState, event: events.CommandsEnded) -> RunState:
    state = state.but(preflight=event)
    hopeless = next((r for r in event.results if r.timed_out or r.code in {126, 127}), None)
    if hopeless:
        why = "did not end in time" if hopeless.timed_out else f"cannot run (exit status {hopeless.code})"
        reason = f"preflight: `{hopeless.command}` {why}: {line(hopeless.output.tail) or 'no output'}"
        marker = Marker(is_failure=True, reason=reason)
        return enter(state, PipelinePhase.AwaitingDevFix, refused=reason, marker=marker)
    if event.green or state.settings.verify.base != "green":
        return state
    red = red_of(event.results)[0]
    text = f"The base is red: `{red.command}` exits with {red.code}. Start all the same?"
    return asking(state, RED_BASE, text, holds=True, how="yes | no")


PHASE = Phase(
    lambda state: rooms.rewound(state.but(planned=False, plan=None), FIRST, iteration_base(state)),
    arrived=lambda state: state if _wants(state) or _asks(state) else leave(state, PipelinePhase.Development), wants=_wants,
)  # fmt: skip
