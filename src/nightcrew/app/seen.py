"""What is written, for those who only look: which run is meant, its facts, its files, how it stood at one of them. Changes nothing."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from nightcrew.app.home import hide, home_of
from nightcrew.app.story import Story, steps, story
from nightcrew.app.views import clock, headline
from nightcrew.core.effects import RunCommands, StartTurn
from nightcrew.core.events import EffectStarted, Entry, Record, RunStarted
from nightcrew.core.ids import RunId, short
from nightcrew.core.reducer import wanted
from nightcrew.core.roster import SecretRef
from nightcrew.core.state import line
from nightcrew.errors import UserError
from nightcrew.journal.store import Journal, effect_folder

__all__ = ["Replayed", "RunId", "Seen", "effect_folder", "everything", "outputs", "replayed", "seen", "shown", "told"]

GONE = "clean removed branch"  # how the note begins that a finished branch was cleared away


class Seen(NamedTuple):
    """A run in an open journal."""

    journal: Journal
    run: RunId

    def entries(self, after: int = 0) -> tuple[Entry, ...]:
        """Its facts after entry `after`."""
        return tuple(self.journal.entries(self.run, after))


def seen(env: Mapping[str, str], name: str | None = None) -> Seen:
    """The run meant by `name` (id, short name or beginning), or the newest when none is given. Raises UserError when there is none, or several."""
    journal = Journal(home_of(env)) if (home_of(env) / "journal.db").exists() else None
    if not journal or not (newest := journal.recent(1)):
        raise UserError("there are no runs yet", 'start one: nightcrew run "…"')
    return Seen(journal, journal.find(name) if name is not None else newest[0])


def everything(env: Mapping[str, str]) -> Iterator[tuple[Entry, ...]]:
    """The facts of every run of this machine, the newest first."""
    journal = Journal(home_of(env)) if (home_of(env) / "journal.db").exists() else None
    yield from (Seen(journal, run).entries() for run in journal.recent(-1)) if journal else ()


def shown(seen: Seen) -> Story:
    """Its story; the next thing to do with a run that a process drives is to watch it, with a branch that was cleared away nothing."""
    name, stands = short(seen.run), (told := story(seen.entries())).stands
    if any(line.topic == "note" and line.what.startswith(GONE) for line in told.lines):
        stands = structs.replace(stands, next_command="", undo="")
    elif stands.next_command == f"nightcrew resume {name}" and seen.journal.holder(seen.run):
        stands = structs.replace(stands, next_command=f"nightcrew watch {name}")
    return structs.replace(told, stands=stands)


def outputs(seen: Seen, env: Mapping[str, str], seat: str = "") -> Iterator[tuple[str, bytes]]:
    """Each output with its title, in order, without secrets; of one seat or purpose if named. Raises UserError when there is nothing of that seat."""
    begun = (entry.event.effect for entry in seen.entries() if isinstance(entry.event, EffectStarted))
    told = [effect for effect in begun if isinstance(effect, StartTurn | RunCommands)]
    mine = [effect for effect in told if seat in {"", effect.seat, effect.node}]
    if seat and not mine:
        names = dict.fromkeys(name for effect in told for name in (effect.seat, effect.node))
        raise UserError(f"run {seen.run} has nothing of '{seat}'", f"it has: {', '.join(names) or 'nothing yet'}")
    agents = next(entry.event.roster for entry in seen.entries() if isinstance(entry.event, RunStarted))
    refs = (ref.env for agent in agents for ref in agent.env.values() if isinstance(ref, SecretRef))
    cleaned = hide(env, *(env[name] for name in refs if name in env))  # the others would ask a password manager
    for place, title in (place for effect in mine for place in _places(effect, effect_folder(home_of(env), effect.key))):
        for path, name in ((place / "stdout", title), (place / "stderr", f"{title} · stderr")):
            if path.is_file() and path.stat().st_size:
                yield name, cleaned.bytes(path.read_bytes())


def _places(effect: StartTurn | RunCommands, folder: Path) -> list[tuple[Path, str]]:
    if isinstance(effect, StartTurn):
        number = int(effect.key.rsplit("/", 1)[1]) + 1
        return [(folder, f"{effect.seat} · {effect.agent} · {effect.node} {number}")]
    titles = (f"{effect.purpose} · {effect.seat} · {command}" for command in effect.commands)
    return [(folder / str(n), title) for n, title in enumerate(titles)]


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
    run, fact, now = state.started.run, msgspec.to_builtins(entry.event), headline(state)
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
