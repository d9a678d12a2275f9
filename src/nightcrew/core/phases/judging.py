"""Judging: a blind panel ranks neutral commits, argues if it is split, and votes; then a fixer may take over what was praised in the losers."""

from nightcrew.core import brief as b, chain, effects as fx, events as ev, fixer, panel, reading, rooms, tally
from nightcrew.core.ids import AgentId, Label, SeatKey, Tree, fraction, impl_seat
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Advising, Judging, Phase, RunState, Want, changing, keyed, line, on, red_of, without
from nightcrew.core.trouble import fail_of, fails, leave, missing
from nightcrew.core.work import Ballot, Brief, Failure, Outcome, PipelinePhase, Purpose, Ranking, Report

NODE, ARGUE, VOTE = "judge", "deliberate", "vote"
_at = changing("judging")
INTO = {"rank": "rankings", "vote": "ballots"}
SHAPE = (
    '{"order": ["B", "A", "C"], "reasons": {"A": "why it stands there", …}, "strengths": {"A": "what it has and the others lack", …}, '
    '"confidence": 0.0 to 1.0}'
)
BALLOT_SHAPE = '{"choice": "B", "why": "…"}'
RANK = "Rank them all, best first: which one does what the task asks, completely and simply? Believe the files and the checks."
SPEAK = "The judges differ. Weigh what they say, make your own point in a few sentences, and say to which one you lean."
CAST = "Vote now for the one that shall be landed. The vote is private: it is not shown to the others."


def _wants(state: RunState) -> tuple[Want, ...]:
    at = state.judging
    match at.step:
        case "neutral":
            heads = {label: state.candidates[label].change.head for label in at.standing}
            redact = state.settings.pipeline.on_leak == "redact"
            due = fx.NeutraliseWork(node=NODE, base=state.candidates[at.standing[0]].start, heads=heads, redact=redact)
            return (Want(keyed(state, due), on(ev.WorkNeutralised, _neutral)),)
        case "rank" | "argue" | "vote":
            base, sees = state.candidates[at.standing[0]].start, tuple(change.head for change in at.neutral.values())
            return panel.ask(state, _awaited(state), base, lambda seat: _wish(state, seat), sees)
        case "drop":
            drop = fx.DropWorkspaces(node=NODE, seats=_leaving(state))
            dropped = on(ev.WorkspacesDropped, lambda now, _event: now.but(workspaces=without(now.workspaces, *_leaving(now))))
            return (Want(keyed(state, drop), dropped),)
        case "graft" | "collect" | "after":
            return rooms.author(state, state.winner) or _graft(state)
        case _:
            return ()


def _arrived(state: RunState) -> RunState:
    match state.judging.step:
        case "":
            return _opened(state)
        case "rank" if not _awaited(state):
            return _ranked(state)
        case "argue" if not _awaited(state):
            return _at(state, step="vote")
        case "argue" if chain.asleep(state, ARGUE).intersection(_awaited(state)):  # a word in a debate is nothing to wait for
            return _at(state, spoken=state.judging.spoken + 1)
        case "vote" if not _awaited(state):
            return _counted(state, state.judging.ballots)
        case "drop" if not _leaving(state):
            grafts = _praise(state) and fixer.can_fix(state)
            return _at(state, step="graft", before=state.chosen.change) if grafts else _at(state, step="over")
        case "over":
            return _over(state)
        case _:
            return state


def _opened(state: RunState) -> RunState:
    """The run with those judged that nothing speaks against: red checks where another's are green, files that another has too."""
    at, out, seen = state.judging, {**state.judging.out}, dict[Tree, Label]()
    viable = [state.candidates[label] for label in at.entrants]
    green = [c for c in viable if not red_of(c.checks)] or viable
    for c in viable:
        if c not in green:
            out[c.label] = f"`{red_of(c.checks)[0].command}` is red"
        elif (twin := seen.setdefault(c.change.tree, c.label)) != c.label:
            out[c.label] = f"the same as {twin}"
    state = _at(state, out=out)
    return _judged(state, step="neutral") if viable else missing(state, "a candidate")


def _judged(state: RunState, **changes: object) -> RunState:
    """The run going on with a panel, or without one where nothing is left to choose."""
    first, *others = state.judging.standing
    return _at(state, **changes) if others else _at(state.but(winner=first), step="drop")


def _neutral(state: RunState, event: ev.WorkNeutralised) -> RunState:
    at, pipeline = state.judging, state.settings.pipeline
    named = {label: f"names {', '.join(words)}" for label, words in event.leaks.items() if words}
    if pipeline.on_leak == "fail" and set(at.standing) <= set(named):
        return fails(state, "leak", "every candidate names a vendor: " + "; ".join(f"{k} {v}" for k, v in named.items()), NODE)
    out = {**at.out, **(named if pipeline.on_leak == "fail" else {})}
    state = _at(state, out=out, neutral=without(event.neutral, *out), leaks=event.leaks)
    seats = panel.seats(NODE, pipeline.judges)
    state = chain.forgotten(state, *seats).but(workspaces=without(state.workspaces, *seats))
    return _judged(state, step="rank", orders={seat: _order(state, n, seat) for n, seat in enumerate(seats)})


def _order(state: RunState, n: int, seat: SeatKey) -> tuple[Label, ...]:
    """How a judge is shown the candidates: of up to three each stands first equally often, more are shuffled for each judge."""
    standing, few = state.judging.standing, len(state.judging.standing) <= 3
    seed, turn = f"{state.started.seed}/{state.iteration}/{NODE if few else seat}", n % len(standing) if few else 0
    shuffled = sorted(standing, key=lambda label: fraction(f"{seed}/{label}"))
    return (*shuffled[turn:], *shuffled[:turn])


def _awaited(state: RunState) -> tuple[SeatKey, ...]:
    """Who is asked now: in a deliberation one after the other, else all who have neither answered nor failed; who sleeps, below the quorum only."""
    at = state.judging
    ranked, quorum = tuple(seat for seat in at.orders if seat in at.rankings), tally.quorum(len(at.orders))
    if at.step == "argue":
        return (*ranked * state.settings.pipeline.deliberate_rounds,)[at.spoken :][:1]
    node, asked = (NODE, tuple(at.orders)) if at.step == "rank" else (VOTE, ranked)
    return panel.awaited(state, "judging", INTO[at.step], asked, node, quorum)


def _wish(state: RunState, seat: SeatKey) -> chain.Wish:
    at = state.judging
    node, shape = {"rank": (NODE, SHAPE), "argue": (ARGUE, BALLOT_SHAPE), "vote": (VOTE, BALLOT_SHAPE)}[at.step]
    agents, number = state.started.roles.chain(AgentRole.Judge), tuple(at.orders).index(seat)
    return chain.Wish(
        node, seat, AgentRole.Judge, Answers.Structured, lambda memory: _brief(state, seat, memory=memory),
        lambda now, said: _heard(now, seat, said), reads=NODE if at.step == "rank" else VOTE, shape=shape,
        fits=lambda report: _fits(at, report), reasks=1, agents=panel.bench(agents, len(at.orders), number, authors(state)),
        nodes=(NODE, ARGUE, VOTE),
    )  # fmt: skip


def authors(state: RunState) -> set[AgentId]:
    """Who made what is judged; none of them is a judge while there is anybody else."""
    trees = {state.candidates[label].change.tree for label in state.judging.standing}
    return {c.agent for c in state.candidates.values() if c.change.tree in trees}


def _fits(at: Judging, report: Report) -> bool:
    if isinstance(report, Ranking):
        return sorted(report.order) == sorted(at.standing)
    return isinstance(report, Ballot) and report.choice in at.standing and (at.step == "vote" or report.why != "")


def _heard(state: RunState, seat: SeatKey, said: Outcome | Failure) -> RunState:
    at = state.judging
    if at.step != "argue":
        return panel.heard(state, "judging", INTO[at.step], seat, said)
    turn = said.report if isinstance(said, Outcome) else None
    return _at(state, spoken=at.spoken + 1, turns=(*at.turns, (seat, turn)) if isinstance(turn, Ballot) else at.turns)


def _ranked(state: RunState) -> RunState:
    at = state.judging
    firsts = {seat: Ballot(r.order[0], r.reasons.get(r.order[0], "")) for seat, r in at.rankings.items()}
    if len({ballot.choice for ballot in firsts.values()}) <= 1 or len(firsts) < tally.quorum(len(at.orders)):
        return _counted(state, firsts)
    return _at(state, step="argue", absent={})


def _counted(state: RunState, ballots: dict[SeatKey, Ballot]) -> RunState:
    at = state.judging
    counted = tally.count(len(at.orders), [state.candidates[label] for label in at.standing], at.rankings, ballots)
    state = _at(state, tally=counted)
    if not counted.winner:
        return fail_of(state, at.absent.values())
    return _at(state.but(winner=counted.winner), ballots=ballots, step="drop")


def _leaving(state: RunState) -> tuple[SeatKey, ...]:
    """The seats whose workspaces are needed no more."""
    return tuple(seat for seat in state.workspaces if seat.startswith(("impl-", "judge-")) and seat != impl_seat(state.winner))


def _over(state: RunState) -> RunState:
    winner = state.chosen
    if state.iteration + 1 >= state.settings.pipeline.iterations:
        return leave(state, PipelinePhase.Review)
    return leave(
        state, PipelinePhase.Planning, iteration=state.iteration + 1, iterations=(*state.iterations[: state.iteration], winner),
        candidates={winner.label: winner}, lanes={}, plan=None, planned=False, advising=Advising(), judging=Judging(),
    )  # fmt: skip


def _brief(state: RunState, seat: SeatKey, *, memory: bool) -> Brief:
    at = state.judging
    known = (b.LOOK_ONLY, *b.task(state), *(piece for label in at.orders[seat] for piece in _shown(state, label)))
    ask, shape = {"rank": (RANK, SHAPE), "argue": (SPEAK, BALLOT_SHAPE), "vote": (CAST, BALLOT_SHAPE)}[at.step]
    asked = f"# What you are asked\n\n{ask}\n\n{reading.json_answer(shape)}"
    if at.step == "rank":
        return b.brief(*known, asked)
    who = {one: f"You (judge {n})" if one == seat else f"Judge {n}" for n, one in enumerate(at.orders, 1)}
    opening = [f"{who[one]}: {_told(r)}" for one, r in at.rankings.items()]
    turns = [f"{who[one]}, leaning to {turn.choice}: {turn.why}" for one, turn in at.turns]
    said = "\n\n".join(("# The opening rankings", *opening, *(("# What was said since", *turns) if turns else ())))
    return b.brief(*(() if memory else known), said, asked)


def _told(ranking: Ranking) -> str:
    reasons = (f"\n- {label}: {why}" for label, why in ranking.reasons.items() if why)
    return f"{', '.join(ranking.order)} (confidence {ranking.confidence:.1f})" + "".join(reasons)


def _shown(state: RunState, label: Label) -> tuple[b.Piece, ...]:
    """A candidate without its author: how large it is and where it lies, its patch as far as there is room, what the checks say."""
    change, base = state.judging.neutral[label], state.candidates[label].start
    limit = 2 * b.PATCH_LIMIT // len(state.judging.standing)
    size = f"{change.files} files, {change.insertions} lines added, {change.deletions} removed"
    size += "" if change.insertions + change.deletions else "; only binary files or modes changed"
    cut = " It is too long to be shown whole: this is its end." if change.patch and change.patch.size > limit else ""
    where = f"`git diff {base} {change.head}` shows all of it, `git show {change.head}:PATH` a file."
    checks = b.outputs(f"What the checks say of candidate {label}", state.candidates[label].checks)
    return (f"# Candidate {label}\n\n{size}. {where}{cut}", b.quoted(change.patch, limit), *checks)


def read(text: str) -> Ranking | None:
    """A judge's ranking; labels may be small and have blanks around them."""
    if (found := reading.last_fitting(text, Ranking)) is None or len(found.order) > len(rooms.LETTERS):
        return None
    order, told = tuple(Label(one.strip().upper()) for one in found.order), (found.reasons, found.strengths)
    reasons, strengths = (
        {k: line(v, 400) for name, v in said.items() if (k := Label(name.strip().upper())) in order} for said in told
    )
    return Ranking(order, reasons, strengths, min(1.0, max(0.0, found.confidence)))


def read_ballot(text: str) -> Ballot | None:
    """A judge's vote, or its turn in the deliberation."""
    found = reading.last_fitting(text, Ballot)
    return found and Ballot(Label(found.choice.strip().upper()), found.why.strip()[:2000])


def _praise(state: RunState) -> str:
    """What judges credit the losers with, if that is wanted."""
    told = ((label, why) for r in state.judging.rankings.values() for label, why in r.strengths.items())
    praised = (f"- {label}: {why}" for label, why in told if why and label != state.winner)
    return "\n".join(praised) if state.settings.pipeline.graft else ""


def _graft(state: RunState) -> tuple[Want, ...]:
    match state.judging.step:
        case "graft":
            now = "# What you are asked\n\nThis work was chosen among several. Take over what the judges credit the others with, where it "
            now += f"fits and is worth it:\n\n{_praise(state)}"
            return fixer.ask(state, "fix", now, then=lambda s, _said: _at(s, step="collect"))
        case "collect":
            return rooms.collect(state, "fix", state.winner, "what others did better", on(ev.WorkCollected, _grafted))
        case _:
            tests = (*state.settings.verify.check, *state.settings.verify.e2e)
            return rooms.commands(state, Purpose.E2e, state.chosen.seat, tests, _tested)


def _grafted(state: RunState, event: ev.WorkCollected) -> RunState:
    state, changed = rooms.collected(state, event.change)
    return _at(state, step="after" if changed and (state.settings.verify.check or state.settings.verify.e2e) else "over")


def _tested(state: RunState, event: ev.CommandsEnded) -> RunState:
    """The run after the graft was tested: what it made red, that was not red before, undoes it."""
    before, known = state.judging.before, {red.command for red in red_of(state.chosen.checks)}
    if before and any(red.command not in known for red in red_of(event.results)):
        state = rooms.with_candidate(state, state.chosen, change=before)
        state = state.but(rewinds={state.chosen.seat: (before.head, ())})
    return _at(state, step="over")


PHASE = Phase(
    lambda state: state.but(winner=Label(""), judging=Judging(entrants=state.judging.entrants)),
    lambda state: _at(state, absent={}), _arrived, _wants,
)  # fmt: skip
