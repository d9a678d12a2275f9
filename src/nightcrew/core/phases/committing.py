"""CommitMessage: the words of the one commit that lands, and the commit itself, through the repository's hooks."""

import textwrap

from msgspec import structs

from nightcrew.core import brief as b
from nightcrew.core import chain, fixer, reading, rooms
from nightcrew.core.effects import Effect, MakeCommit
from nightcrew.core.events import CommitMade, CommitRefused, EffectAnswer
from nightcrew.core.ids import SeatKey, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, Committing, LandingTry, RunState, Validating, enter, key_for
from nightcrew.core.trouble import fail, leave, missing
from nightcrew.core.work import Brief, Candidate, CommandResult, CommitText, Failure, Part, PipelinePhase

NODE = "commit"
SEAT = SeatKey("commit")
SUBJECT = 72
SHAPE = '{"subject": "at most 72 characters, imperative", "body": "why, wrapped; may be empty"}'


def wants(state: RunState) -> tuple[Effect, ...]:
    """The message, then the commit."""
    winner, text = state.winning, state.committing.text
    if winner is None:
        return ()
    if text is None:
        return rooms.reader(state, SEAT, winner.change.head) or chain.ask(state, wish(state, winner))
    return rooms.author(state, winner.label) or (
        MakeCommit(
            key=key_for(state, MakeCommit, NODE, winner.seat),
            node=NODE,
            seat=winner.seat,
            slot=winner.slot,
            label=winner.label,
            tip=state.base,
            head=winner.change.head,
            tree=winner.change.tree,
            text=text,
        ),
    )


def arrived(state: RunState) -> RunState:
    """Without anybody who could write, the task's title is the message."""
    winner = state.winning
    if winner is None:
        return missing(state, "a winner", str(AgentRole.Committer))
    if state.unreviewed:
        return enter(state, PipelinePhase.Review)
    if state.gated != winner.change.tree:
        return enter(state, PipelinePhase.FinalValidation, validating=_gate_again(state), gated=Tree(""))
    if state.committing.text is None and not state.started.roles.chain(AgentRole.Committer):
        return structs.replace(state, committing=Committing(plain(state)))
    return state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    winner = state.winning
    if winner is None:
        return state
    match event:
        case CommitMade():
            return _made(state, winner, event)
        case CommitRefused():
            result = CommandResult(f"{event.hook or 'commit'} hook", event.code, event.output)
            return _refused(state, winner, result)
        case _:
            pass
    state, verdict = chain.answered(state, wish(state, winner), effect, event)
    match verdict:
        case chain.Good(outcome) if isinstance(outcome.report, CommitText):
            return structs.replace(state, committing=Committing(outcome.report))
        case chain.Good() | chain.Bad():
            return structs.replace(state, committing=Committing(plain(state)))
        case None:
            return state


def afresh(state: RunState) -> RunState:
    """The phase from its first effect (recovery level 2)."""
    return structs.replace(state, committing=Committing())


def again(state: RunState) -> RunState:
    """What failed becomes due again (recovery level 1)."""
    return state


def read(text: str) -> CommitText | None:
    """A message that passes the format check; a subject that is too long, empty or of two lines does not."""
    found = reading.last_fitting(text, CommitText)
    if found is None:
        return None
    subject = found.subject.strip()
    if not subject or len(subject) > SUBJECT or "\n" in subject:
        return None
    return CommitText(subject, _wrapped(found.body))


def plain(state: RunState) -> CommitText:
    """The task's title as a message."""
    title = " ".join(state.started.task.title.split())
    return CommitText(textwrap.shorten(title, SUBJECT, placeholder="…") or "nightcrew: work on a task")


def wish(state: RunState, winner: Candidate) -> chain.Wish:
    """One committer's turn."""
    entries, before = chain.walk(state, AgentRole.Committer, SEAT, (NODE,))
    return chain.Wish(
        node=NODE,
        seat=SEAT,
        role=AgentRole.Committer,
        entries=entries,
        before=before,
        slot=rooms.slot(state, SEAT),
        answers=Answers.Text,
        reads=NODE,
        read_only=True,
        brief=lambda _memory: _brief(state, winner),
    )


def _brief(state: RunState, winner: Candidate) -> Brief:
    return b.brief(
        b.LOOK_ONLY,
        *b.task(state),
        Part(text="# The change"),
        b.quoted(winner.change.patch, b.PATCH_LIMIT),
        "# What you are asked\n\nWrite the commit message of this change: what it does and why, no trailers, no mention of an agent.\n\n"
        + reading.json_answer(SHAPE),
    )


def _wrapped(body: str) -> str:
    lines = [
        part if part[:2] in {"- ", "* ", "  "} else textwrap.fill(part, SUBJECT) for part in body.strip().splitlines()
    ]
    return "\n".join(
        part for part in lines if not part.lower().startswith(("co-authored-by:", "signed-off-by:", "generated"))
    )


def _made(state: RunState, winner: Candidate, event: CommitMade) -> RunState:
    if event.tree == state.gated:
        return leave(state, PipelinePhase.Landing, commit=event.commit, trying=_fresh_try(state))
    if state.validating.hooked:
        note = CommandResult(
            "commit hook",
            1,
            b.small("the commit hook changed the files again after the gate had passed on its last change"),
        )
        return _refused(state, winner, note)
    change = structs.replace(winner.change, head=event.commit, tree=event.tree)
    state = rooms.with_candidate(state, structs.replace(winner, change=change))
    return enter(
        state,
        PipelinePhase.FinalValidation,
        validating=Validating(hooked=1, rounds=state.validating.rounds),
        gated=Tree(""),
    )


def _gate_again(state: RunState) -> Validating:
    """A repair changed what was tested: from the base on, and no green result from before is believed."""
    return structs.replace(state.validating, basing=Basing(), step="base", fresh=True)


def _refused(state: RunState, winner: Candidate, red: CommandResult) -> RunState:
    """A hook that refuses the commit is a red gate with the hook's output, mended there (decision 0018)."""
    if fixer.gate_round_left(state, winner, red):
        at = state.validating
        basing = structs.replace(at.basing, step="done")
        fixing = structs.replace(at, basing=basing, step="fix", red=(red,), rounds=at.rounds + 1)
        return enter(state, PipelinePhase.FinalValidation, validating=fixing, gated=Tree(""))
    reason = f"the {red.command} refuses the commit: exit status {red.code}"
    failure = Failure(
        phase=state.phase,
        role=str(AgentRole.Committer),
        kind="hook",
        reason=reason,
        node=NODE,
        signature=chain.signature_of(f"{reason} {red.output.tail[-400:]}"),
        detail=red.output,
    )
    return fail(state, failure)


def _fresh_try(state: RunState) -> LandingTry:
    """A new try at landing keeps count of the tips that moved."""
    return structs.replace(state.trying, step="land", refusal="", output=None)
