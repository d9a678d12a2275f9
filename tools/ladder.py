"""Draws docs/recovery.svg, the ladder of recovery, from the core's own levels and pauses. Run by `make picture`."""

from pathlib import Path

from nightcrew.core.recovery import FREE_ATTEMPTS, level_of
from nightcrew.core.settings import Ladder

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 13
"""Attempts in the picture; all later ones are like the last."""
WIDE, HIGH, STEP, COLUMN, LEFT, FLOOR = 900, 400, 62, 62, 60, 330
LEVELS = {
    1: ("1 · the step again", "nothing is reset"),
    2: ("2 · the phase again", "as it was when it began"),
    3: ("3 · one iteration back", "plan, work, reviews anew"),
    4: ("4 · from the very start", "the run's first commit, no end"),
}
COLOURS = {1: "#7fb069", 2: "#d19a2a", 3: "#d36135", 4: "#8e3b46"}


def longest_s(attempt: int, ladder: Ladder) -> float:
    """Seconds that the pause before that attempt's recovery lasts at most."""
    doubled = ladder.pause_s * 2 ** (attempt - FREE_ATTEMPTS - 1)
    return min(ladder.pause_max_s, doubled) if attempt > FREE_ATTEMPTS else 0.0


def span(seconds: float) -> str:
    """A pause as the picture and the page say it."""
    if not seconds:
        return "none"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def drawn() -> str:
    """The whole picture."""
    stairs = "\n".join(_stair(attempt) for attempt in range(1, SHOWN + 1))
    words = "\n".join(_words(level) for level in LEVELS)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif" font-size="13">
<title>The ladder of recovery: levels by attempt, and the longest pause before each</title>
<rect width="{WIDE}" height="{HIGH}" fill="#ffffff"/>
{words}
{stairs}
{_text(LEFT - 8, FLOOR + 22, "attempt", anchor="end", colour="#555555", size=12)}
{_text(LEFT - 8, FLOOR + 44, "pause", anchor="end", colour="#555555", size=12)}
{_text(WIDE - 12, FLOOR + 22, "…", anchor="end")}
</svg>
"""


def _stair(attempt: int) -> str:
    level = level_of(attempt)
    x, top = LEFT + (attempt - 1) * COLUMN, FLOOR - level * STEP
    box = f'<rect x="{x}" y="{top}" width="{COLUMN}" height="{FLOOR - top}" fill="{COLOURS[level]}"/>'
    pause = span(longest_s(attempt, Ladder()))
    middle = x + COLUMN // 2
    return "\n".join((box, _text(middle, FLOOR + 22, str(attempt)), _text(middle, FLOOR + 44, pause, size=12)))


def _words(level: int) -> str:
    """What a level does, over its first stair."""
    first = next(attempt for attempt in range(1, SHOWN + 1) if level_of(attempt) == level)
    x, y = LEFT + (first - 1) * COLUMN + 2, FLOOR - level * STEP - 24
    title, detail = LEVELS[level]
    return "\n".join((
        _text(x, y, title, anchor="start", colour=COLOURS[level], weight="bold"),
        _text(x, y + 16, detail, anchor="start", colour="#555555", size=12),
    ))  # fmt: skip


def _text(
    x: int, y: int, text: str, *, anchor: str = "middle", colour: str = "#222222", size: int = 13, weight: str = "normal"
) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" font-weight="{weight}">{text}</text>'


if __name__ == "__main__":
    (ROOT / "docs/recovery.svg").write_text(drawn())
