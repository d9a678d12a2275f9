"""A run for those who only look: which is meant, its facts, its files, how it stood, and how it goes on from moment to moment. Changes nothing."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from nightcrew.app.home import DRIVEN, hide, home_of
from nightcrew.app.story import Line, Step, Story, rivals, rounds_of, said, steps, story, where
from nightcrew.app.views import answer_command, clock, conclusion, count, doing_now, span, waits_for
from nightcrew.core.effects import RunCommands, StartTurn
from nightcrew.core.events import EffectStarted, Entry, Record, RunStarted
from nightcrew.core.ids import EffectId, RunId, short
from nightcrew.core.reducer import wanted
from nightcrew.core.roster import Agent, SecretRef
from nightcrew.core.state import RunState, line
from nightcrew.errors import UserError
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.git.sealed import Checkout, GitError, git
from nightcrew.journal.store import Journal, effect_folder
from nightcrew.redact import Redactor

__all__ = [
    "Entry", "RunId", "RunState", "Seen", "Step", "changes", "everything", "follow", "outputs", "panel", "replayed", "seen", "shown", "told"
]  # fmt: skip

GONE = "clean removed branch"  # how the note begins that a finished branch was cleared away
# What the events of agent programs, in JSON of whatever shape, hold for a person.
_TELLING = re.compile(r'"(?:name|text|command|file_path|path|pattern|query)": ?("(?:[^"\\]|\\.)*+")')
TAIL = 16 * 1024  # bytes of an agent's output in which its newest words are looked for
LOOK_S = 0.1  # between two looks at a run that another process drives


class Seen(NamedTuple):
    """A run in an open journal."""

    journal: Journal
    run: RunId

    def entries(self, after: int = 0) -> tuple[Entry, ...]:
        """Its facts after entry `after`."""
        return tuple(self.journal.entries(self.run, after))


def seen(env: Mapping[str, str], name: str | None = None, near: Path = Path()) -> Seen:
    """The run meant by `name` (id, short name or beginning). Raises UserError when there is none, or several."""
    # Without a name the newest of the repository around `near`; where that has none, of the machine.
    journal = Journal(home_of(env)) if (home_of(env) / "journal.db").exists() else None
    if not journal or not (newest := journal.recent(1)):
        raise UserError("there are no runs yet", 'start one: nightcrew run "…"')
    if name is not None:
        return Seen(journal, journal.find(name))
    with suppress(UserError):
        newest = journal.recent(1, repo_id(open_repo(near, env))) or newest
    return Seen(journal, newest[0])


def everything(env: Mapping[str, str]) -> Iterator[tuple[Entry, ...]]:
    """The facts of every run of this machine, the newest first."""
    journal = Journal(home_of(env)) if (home_of(env) / "journal.db").exists() else None
    yield from (Seen(journal, run).entries() for run in journal.recent(-1)) if journal else ()


def shown(seen: Seen, env: Mapping[str, str]) -> Story:
    """Its story; the next thing to do with a run that a process drives is to watch it, with a branch that was cleared away nothing."""
    name, stands = short(seen.run), (told := story(seen.entries())).stands
    known = {found.what.split(" ")[0] for found in told.lines if found.topic == "rescued"}
    # Who dies between a rescue and its fact tells of none, and some are made on the way to something else: git knows them all.
    more = (Line(told.seq, told.last_at, "rescued", ref) for ref in _rescues(seen, told.started.repo, env) if ref not in known)
    if any(line.topic == "note" and line.what.startswith(GONE) for line in told.lines):
        stands = structs.replace(stands, next_command="", undo="")
    elif stands.word in DRIVEN and seen.journal.holder(seen.run) is None:
        stands = structs.replace(stands, headline=f"{stands.headline} (stopped: nobody drives it)")
    elif stands.next_command == f"nightcrew resume {name}" and seen.journal.holder(seen.run):
        stands = structs.replace(stands, next_command=f"nightcrew watch {name}")
    return structs.replace(told, stands=stands, lines=(*told.lines, *more))


def _rescues(seen: Seen, repo: str, env: Mapping[str, str]) -> list[str]:
    asks = ("for-each-ref", "--sort=version:refname", "--format=%(refname)", f"refs/nightcrew/rescue/{seen.run}/")
    with suppress(UserError, GitError):  # where the repository is gone there are none
        return git(Checkout(seen.journal.place(repo), env), *asks).split()
    return []


def outputs(seen: Seen, env: Mapping[str, str], seat: str = "") -> Iterator[tuple[str, bytes]]:
    """Each output with its title, in order, without secrets; of one seat or purpose if named. Raises UserError when there is nothing of that seat."""
    begun = (entry.event.effect for entry in seen.entries() if isinstance(entry.event, EffectStarted))
    told = [effect for effect in begun if isinstance(effect, StartTurn | RunCommands)]
    mine = [effect for effect in told if seat in {"", effect.seat, effect.node}]
    if seat and not mine:
        names = dict.fromkeys(name for effect in told for name in (effect.seat, effect.node))
        raise UserError(f"run {seen.run} has nothing of '{seat}'", f"it has: {', '.join(names) or 'nothing yet'}")
    cleaned = _hidden(next(entry.event.roster for entry in seen.entries() if isinstance(entry.event, RunStarted)), env)
    for effect in mine:
        folder = effect_folder(home_of(env), effect.key)
        if isinstance(effect, StartTurn):
            places = {folder: f"{effect.seat} · {effect.agent} · {effect.node} {int(effect.key.rsplit('/', 1)[1]) + 1}"}
        else:
            places = {folder / str(n): f"{effect.purpose} · {effect.seat} · {of}" for n, of in enumerate(effect.commands)}
        for place, title in places.items():
            for path, name in ((place / "stdout", title), (place / "stderr", f"{title} · stderr")):
                if path.is_file() and path.stat().st_size:
                    yield name, cleaned.bytes(path.read_bytes())


def _hidden(roster: Iterable[Agent], env: Mapping[str, str]) -> Redactor:
    """What must not be shown, with what agents are given; values of a command are not asked for, it may be a password manager."""
    refs = (ref.env for agent in roster for ref in agent.env.values() if isinstance(ref, SecretRef))
    return hide(env, *(env[name] for name in refs if name in env))


class Replayed(Struct, frozen=True):
    """The state after entry `seq`; `fact` is that entry's, `open` and `wanted` are keys (a decision: `Record` and its name)."""

    run: str
    seq: int
    at: float
    fact: dict[str, Any]
    phase: str
    visit: int
    headline: str
    open: tuple[str, ...]
    wanted: tuple[str, ...]


def replayed(entries: Iterable[Entry], seq: int | None = None) -> Replayed:
    """The run after entry `seq`, or after the newest. Raises UserError when there is no such entry."""
    told = list(steps(entries))
    if seq is not None and not 0 < seq <= len(told):
        raise UserError(f"there is no entry {seq}", f"there are 1 to {len(told)}")
    del told[seq or len(told) :]
    entry, state = told[-1].entry, told[-1].after
    want = tuple(f"Record {type(w.event).__name__}" if isinstance(w, Record) else w.key for w in wanted(state))
    run, fact, now = state.started.run, msgspec.to_builtins(entry.event), conclusion(state).headline
    return Replayed(run, entry.seq, entry.at, fact, state.phase, state.visit, now, tuple(state.open), want)


def told(seen: Replayed) -> list[str]:
    """The same in words."""
    rest = ", ".join(f"{key} {line(str(value), 60)}" for key, value in seen.fact.items() if key != "type")
    return [
        f"{seen.run} after entry {seen.seq}, {clock(seen.at, seen.at)}",
        f"  fact: {seen.fact['type']}" + (f" ({line(rest, 200)})" if rest else ""),
        f"  stands: {seen.headline} · phase {seen.phase}, visit {seen.visit}",
        *(f"  in flight: {key}" for key in seen.open),
        *(f"  wanted: {key}" + (" (in flight)" if key in seen.open else "") for key in seen.wanted),
    ]


def changes(step: Step) -> list[str]:
    """What a fact means to somebody who follows the run, in lines."""
    told = [found for found in said(step) if found.topic not in {"kept", "cooling"}]
    return [f"{t.topic}: {t.what}" if t.topic in {"note", "rescued"} else t.what for t in told]


def panel(state: RunState, now: float, env: Mapping[str, str]) -> list[str]:
    """The run at this moment, for a screen: where it stands, who works since when and on what, what comes next. `now` is a time."""
    stands, spent = conclusion(state), state.spend
    at = str(state.phase) if stands.word == "running" else stands.headline
    cost = f"{spent.usd:.2f} usd" + (f" + {spent.unpriced} unpriced" if spent.unpriced else "")
    stand = " · ".join(filter(None, (at, rounds_of(state), cost, count(spent.turns, "turn"))))
    lines = [f"── {stands.short} · {state.started.task.title}", stand]
    for key, opened in state.open.items():
        what, who, since, effect = "", doing_now(opened.effect), span(now - opened.at), opened.effect
        if isinstance(effect, StartTurn):
            what, who, since = where(effect.node, effect.seat), effect.agent, since if opened.begun else "queued"
        elif isinstance(effect, RunCommands):
            what, who = effect.purpose, effect.commands[0]
        if who:
            lines.append(f"  {what:<12} {who:<14} {since:>7}  {activity(key, env, state.started.roster)}".rstrip())
    if len(state.candidates) > 1 and not state.winner:
        lines += (f"  {row}" for row in rivals(state.candidates.values(), state.winner, state.judging))
    if cools := [f"{agent} until {clock(until, now)}" for agent, until in state.cooling.items() if until > now]:
        lines.append(f"cooling: {', '.join(cools)}")
    if question := next(iter(state.questions.values()), None):
        lines.append(f"next: {line(question.text)} {answer_command(state, question)}")
    elif timer := waits_for(state):
        lines.append(f"next: {clock(timer.fire_at, state.at)}, {timer.why}")
    return lines


def activity(key: EffectId, env: Mapping[str, str], roster: Iterable[Agent] = ()) -> str:
    """The newest words of an agent or a command at work, or what it does; "" when it said nothing yet."""
    folder = effect_folder(home_of(env), key)
    try:
        with max(folder.glob("[0-9]*/stdout"), default=folder / "stdout").open("rb") as file:
            if file.seek(max(0, file.seek(0, 2) - TAIL)):
                file.readline()  # its beginning is cut off: a secret in it might not be known as one
            text = _hidden(roster, env).text(file.read().decode(errors="replace"))
    except OSError:
        return ""
    newest = reversed(text.splitlines())
    words = (" ".join(map(msgspec.json.decode, _TELLING.findall(said))) if said.startswith("{") else said for said in newest)
    return next(filter(None, (line(said, 70) for said in words)), "")


def follow(seen: Seen, show: Callable[[RunState, Entry], None]) -> RunState:
    """Show every fact from the first on, as it comes, until the run is over or nobody drives it; gives the last state."""
    state = None
    while True:
        driven = seen.journal.holder(seen.run) is not None
        for step in steps(seen.entries(state.seq if state else 0), state):
            state = step.after
            show(state, step.entry)
        if state is not None and (state.done or not driven):
            return state
        time.sleep(LOOK_S)
