"""Where the raw output of a run's turns and commands lies, in the order in which they were begun."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nightcrew.app.home import home_of
from nightcrew.app.views_journal import Seen, effect_folder
from nightcrew.core.effects import RunCommands, StartTurn
from nightcrew.core.events import EffectStarted
from nightcrew.errors import UserError


class Output(NamedTuple):
    """One file of output, and what it is."""

    title: str
    path: Path


def outputs(seen: Seen, env: Mapping[str, str], seat: str = "") -> list[Output]:
    """The output of every turn and command, or of one seat or purpose. Raises UserError when there is nothing of that seat."""
    begun = [entry.event.effect for entry in seen.entries() if isinstance(entry.event, EffectStarted)]
    told = [effect for effect in begun if isinstance(effect, StartTurn | RunCommands)]
    mine = [effect for effect in told if seat in {"", effect.seat, effect.node}]
    if seat and not mine:
        names = dict.fromkeys(name for effect in told for name in (effect.seat, effect.node))
        raise UserError(f"run {seen.run} has nothing of '{seat}'", f"it has: {', '.join(names) or 'nothing yet'}")
    return [output for effect in mine for output in _of(effect, home_of(env))]


def _of(effect: StartTurn | RunCommands, home: Path) -> Iterator[Output]:
    folder = effect_folder(home, effect.key)
    if isinstance(effect, StartTurn):
        number = int(effect.key.rsplit("/", 1)[1]) + 1
        yield from _files(folder, f"{effect.seat} · {effect.agent} · {effect.node} {number}")
        return
    for n, command in enumerate(effect.commands):
        yield from _files(folder / str(n), f"{effect.purpose} · {effect.seat} · {command}")


def _files(folder: Path, title: str) -> Iterator[Output]:
    for name in ("stdout", "stderr"):
        path = folder / name
        if path.is_file() and path.stat().st_size:
            yield Output(title if name == "stdout" else f"{title} · stderr", path)
