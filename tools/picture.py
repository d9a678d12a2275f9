"""Draws docs/picture.svg from a real run: `nightcrew demo` in a terminal of 110 columns, recorded as text. Run by `make picture`."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 118


def main() -> None:
    """Run the demo, take the lines a reader needs, and export them as an SVG."""
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": str(WIDTH)}
    ended = subprocess.run([sys.executable, "-m", "nightcrew", "demo"], capture_output=True, text=True, check=True, env=env)
    told = [line for line in ended.stdout.splitlines() if "/" + "tmp/" not in line]
    life = [line for line in told if re.match(r"\d\d:\d\d:\d\d ", line)]
    story = told[told.index(next(line for line in told if " · " in line and not line.startswith(" "))) :]
    until = next(n for n, line in enumerate(story) if line.startswith("Phases"))
    graph = [line for line in told if line.startswith("* ")]
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115 — nothing is printed, the record is what counts
    console.print(Text('$ nightcrew run "Stack.pop must not fail with a bare IndexError"', style="bold"))
    for line in life:
        console.print(_coloured(line))
    for line in ["", *story[:until], "", *graph]:
        console.print(_coloured(line))
    drawn = re.sub(r"@font-face \{.*?\}\n", "", console.export_svg(title="nightcrew"), flags=re.DOTALL)
    (ROOT / "docs/picture.svg").write_text(drawn.replace("Fira Code", "monospace"))


def _coloured(line: str) -> Text:
    text = Text(line)
    text.highlight_regex(r"\b(red|refused|reject|quota|conflict)\b", "bold red")
    text.highlight_regex(r"\b(green|landed|ok|approve)\b", "bold green")
    text.highlight_regex(r"→ \w+", "bold cyan")
    text.highlight_regex(r"^\d\d:\d\d:\d\d", "dim")
    return text


if __name__ == "__main__":
    main()
