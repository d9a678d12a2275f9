"""Planning: the workspace, the first look at the gate on the base, and one plan. Best effort: without a plan the task is the plan."""

from msgspec import structs

from nightcrew.core import brief as b
from nightcrew.core import chain, rooms
from nightcrew.core.effects import Effect, RunCommands
from nightcrew.core.events import CommandsEnded, EffectAnswer
from nightcrew.core.ids import Label, SeatKey
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Marker, Planning, RunState, enter, iteration_base, line
from nightcrew.core.trouble import leave
from nightcrew.core.work import Brief, PipelinePhase, Purpose, Question

NODE = "plan"
SEAT = SeatKey("plan")
FIRST = Label("A")
RED_BASE = "red-base"


def wants(state: RunState) -> tuple[Effect, ...]:
    """The workspace, then preflight, then the plan."""
    missing = rooms.author(state, FIRST)
    if missing:
        return missing
    if state.preflight is None and _decisive(state):
        return (rooms.commands(state, Purpose.Preflight, rooms.impl_seat(FIRST), _decisive(state)),)
    if not _asks(state):
        return ()
    return rooms.reader(state, SEAT, iteration_base(state)) or chain.ask(state, wish(state))


def arrived(state: RunState) -> RunState:
    """Go on at once when nothing is left to do here."""
    nothing_missing = not rooms.author(state, FIRST) and (state.preflight is not None or not _decisive(state))
    return leave(state, PipelinePhase.Development) if nothing_missing and not _asks(state) else state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    if isinstance(effect, RunCommands) and isinstance(event, CommandsEnded):
        return _preflighted(structs.replace(state, preflight=event), event)
    state, verdict = chain.answered(state, wish(state), effect, event)
    match verdict:
        case chain.Good(outcome):
            return structs.replace(state, plan=outcome.answer, planning=Planning(planned=True))
        case chain.Bad():
            return structs.replace(state, planning=Planning(planned=True))
        case None:
            return state


def afresh(state: RunState) -> RunState:
    """Start the phase from its first effect (recovery level 2)."""
    state = structs.replace(state, planning=Planning(), plan=None)
    return rooms.rewound(state, FIRST, iteration_base(state))


def again(state: RunState) -> RunState:
    """What failed becomes due again (recovery level 1)."""
    return state


def wish(state: RunState) -> chain.Wish:
    """One planner turn."""
    entries, before = chain.walk(state, AgentRole.Planner, SEAT, (NODE,))
    return chain.Wish(
        node=NODE,
        seat=SEAT,
        role=AgentRole.Planner,
        entries=entries,
        before=before,
        slot=rooms.slot(state, SEAT),
        answers=Answers.Text,
        reads="",
        read_only=True,
        brief=lambda _memory: _brief(state),
    )


def _brief(state: RunState) -> Brief:
    seen = b.outputs("What the checks say on the untouched base", state.preflight.results) if state.preflight else ()
    return b.brief(
        b.LOOK_ONLY,
        *b.task(state),
        *seen,
        "# What you are asked\n\nWrite the plan that another engineer will follow: what to change and where, in which order, which "
        "tests show that it works, and what could go wrong. Be short and name files. Do not change anything.",
    )


def _asks(state: RunState) -> bool:
    can = bool(state.started.roles.chain(AgentRole.Planner))
    return state.settings.pipeline.plan and can and not state.planning.planned


def _decisive(state: RunState) -> tuple[str, ...]:
    verify = state.settings.verify
    return tuple(dict.fromkeys((*verify.gate, *verify.check)))


def _preflighted(state: RunState, event: CommandsEnded) -> RunState:
    hopeless = [r for r in event.results if r.timed_out or r.code in {126, 127}]
    if hopeless:
        first = hopeless[0]
        why = "did not end in time" if first.timed_out else f"cannot run (exit status {first.code})"
        reason = f"preflight: `{first.command}` {why}: {line(first.output.tail) or 'no output'}"
        marker = Marker(is_failure=True, reason=reason)
        return enter(state, PipelinePhase.AwaitingDevFix, refused=reason, marker=marker)
    if not event.green and state.settings.verify.base == "green":
        red = next(r for r in event.results if not r.green)
        text = f"The base is red: `{red.command}` exits with {red.code}. Start all the same?"
        question = Question(RED_BASE, text, holds=True, asked_at=state.at, how="yes | no")
        return structs.replace(state, questions={**state.questions, RED_BASE: question})
    return state
