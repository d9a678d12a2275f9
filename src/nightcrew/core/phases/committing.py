"""CommitMessage: the words of the one commit that lands, and the commit itself, through the repository's hooks."""

import textwrap

from nightcrew.core import brief as b, chain, effects, events, fixer, reading, rooms
from nightcrew.core.ids import SeatKey, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, Phase, RunState, Validating, Want, asking, enter, line
from nightcrew.core.trouble import fails, leave
from nightcrew.core.work import Brief, CommandResult, CommitText, Failure, Outcome, PipelinePhase

NODE = "commit"
SEAT = SeatKey("commit")
SIGNING, HOOK = "signing", "hook"  # questions
SUBJECT = 72
SHAPE = '{"subject": "at most 72 characters, imperative", "body": "why, wrapped; may be empty"}'


def _wants(state: RunState) -> tuple[Want, ...]:
    winner, text = state.chosen, state.text
    if text is None:
        wish = chain.Wish(NODE, SEAT, AgentRole.Committer, Answers.Text, lambda _memory: _brief(state), _told, reads=NODE)
        return rooms.reader(state, SEAT, winner.change.head) or chain.ask(state, wish)
    make = effects.MakeCommit(node=NODE, tip=state.base, head=winner.change.head, tree=winner.change.tree, text=text)
    return (Want(rooms.work(state, make, winner.label), _committed),)


def _arrived(state: RunState) -> RunState:
    if state.gated != state.chosen.change.tree:
        # A repair changed what was tested: from the base on, and no green result from before is believed.
        gate_again = state.validating.but(basing=Basing(), step="base", fresh=True)
        return enter(state, PipelinePhase.FinalValidation, validating=gate_again, gated=Tree(""))
    if state.text is None and not state.started.roles.chain(AgentRole.Committer):
        return state.but(text=_plain(state))
    return state


def _told(state: RunState, said: Outcome | Failure) -> RunState:
    report = said.report if isinstance(said, Outcome) else None
    return state.but(text=report if isinstance(report, CommitText) else _plain(state))


def _committed(state: RunState, _effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    if isinstance(event, events.CommitMade):
        return _made(state, event)
    if not isinstance(event, events.CommitRefused):
        return state
    red = CommandResult(f"{event.hook or 'commit'} hook", event.code, event.output, timed_out=event.timed_out)
    if event.hook == SIGNING or not red.ordinary:
        # No agent can mend how the operator signs, nor a hook that cannot run or end: a person is asked, nothing is paid (decision 0023).
        said, why = line(red.output.tail), "did not end in time" if red.timed_out else f"cannot run (exit status {red.code})"
        name, told = (SIGNING, said) if event.hook == SIGNING else (HOOK, f"the {red.command} {why}: {said}")
        return asking(state, name, f"The commit is not made: {told}. Try again?", holds=True, how="retry | stop")
    return _refused(state, red)


def read(text: str) -> CommitText | None:
    """A message that passes the format check; one that steers a terminal, or with a subject that is too long, empty or of two lines, does not."""
    found = reading.last_fitting(text, CommitText)
    subject = found.subject.strip() if found else ""
    if found is None or not subject or len(subject) > SUBJECT:
        return None
    if any(c < " " or "\x7f" <= c < "\xa0" for c in subject + "".join(found.body.split())):  # git takes no NUL
        return None
    lists, trailers = ("- ", "* ", "  "), ("co-authored-by:", "signed-off-by:", "generated")
    lines = [part if part.startswith(lists) else textwrap.fill(part, SUBJECT) for part in found.body.strip().splitlines()]
    return CommitText(subject, "\n".join(part for part in lines if not part.lower().startswith(trailers)))


def _plain(state: RunState) -> CommitText:
    return CommitText(line(" ".join(state.started.task.title.split()), SUBJECT))


def _brief(state: RunState) -> Brief:
    known = (b.LOOK_ONLY, *b.task(state), *b.change(state.chosen.change.patch, "The change"))
    ask = "Write the commit message of this change: what it does and why, no trailers, no mention of an agent."
    return b.brief(*known, f"# What you are asked\n\n{ask}\n\n{reading.json_answer(SHAPE)}")


def _made(state: RunState, event: events.CommitMade) -> RunState:
    if event.tree == state.gated:
        trying = state.trying.but(step="land", refusal="", output=None)  # the tips that moved still count
        return leave(state, PipelinePhase.Landing, commit=event.commit, trying=trying)
    if state.validating.hooked:
        why = "the commit hook changed the files again after the gate had passed on its last change"
        return _refused(state, CommandResult("commit hook", 1, b.small(why)))
    state = rooms.with_candidate(state, state.chosen, change=state.chosen.change.but(head=event.commit, tree=event.tree))
    gate_again = Validating(hooked=1, rounds=state.validating.rounds)
    return enter(state, PipelinePhase.FinalValidation, validating=gate_again, gated=Tree(""))


def _refused(state: RunState, red: CommandResult) -> RunState:
    """A hook that refuses the commit is a red gate with the hook's output, mended there (decision 0018)."""
    if fixer.gate_round_left(state, red):
        at = state.validating
        fixing = at.but(basing=at.basing.but(step="done"), step="fix", red=(red,), rounds=at.rounds + 1, refused=True)
        return enter(state, PipelinePhase.FinalValidation, validating=fixing, gated=Tree(""))
    reason = f"the {red.command} refuses the commit: exit status {red.code}"
    return fails(state, "hook", reason, NODE, detail=red.output, sign=f"{reason} {red.output.tail[-400:]}")


PHASE = Phase(lambda state: state.but(text=None), arrived=_arrived, wants=_wants, winner=True)
