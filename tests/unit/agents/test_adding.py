"""Another agent takes a module and a table; and what docs/agents.md says of all is what the catalog says."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import nightcrew

ROOT = Path(__file__).resolve().parents[3]
MODULE = '''"""Adapter for Fictional."""

from nightcrew.agents import reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn


def command(turn: Turn) -> Launch:
    """One turn."""
    return Launch((turn.program, "--go", *(("--on", turn.resume) if turn.resume else ())))


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """Its last line decides."""
    told = reading.Told()
    for line in told.lines(out):
        told.session, told.answer, told.closed = line["id"], line["said"], line["well"]
    return reading.judged(told, turn, end, err, now, zone)
'''
TRIAL = """
from pathlib import Path
from nightcrew.agents import catalog
from nightcrew.agents.base import Exit, Turn
turn = Turn(program="/bin/fictional", prompt_file=Path("p"), cwd=Path("/slot"), resume="s")
assert "fictional" in catalog.looked_for()
assert catalog.kinds()["fictional"].sessions == "its own"
adapter = catalog.adapter("fictional")
assert adapter.command(turn).argv == ("/bin/fictional", "--go", "--on", "s")
judged = adapter.judge(turn, Exit(), b'{"type":"end","id":"s","said":"Done.","well":true}\\n', b"", 0.0, "")
assert (judged.kind.value, judged.answer, judged.session) == ("ok", "Done.", "s"), judged
"""


def test_a_fictional_agent_touches_two_files(tmp_path: Path) -> None:
    """In a copy of the package: one new module, one new table, and it is found, started and judged."""
    package = tmp_path / "nightcrew"
    shutil.copytree(Path(nightcrew.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "agents/fictional.py").write_text(MODULE)
    with (package / "agents/catalog.toml").open("a") as table:
        table.write('\n[fictional]\nsessions = "its own"\n')
    subprocess.run([sys.executable, "-c", TRIAL], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, check=True)


def test_the_page_says_what_the_catalog_says() -> None:
    """`python tools/agents.py` writes it again."""
    page = (ROOT / "docs/agents.md").read_text()
    assert runpy.run_path(str(ROOT / "tools/agents.py"))["written"](page) == page
