"""Each import contract is shown to bite: a copy of the sources with one wrong import must fail it."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = ROOT / ".importlinter"
PREFIX = "importlinter:contract:"

PLANTS: list[tuple[str, dict[str, str]]] = [
    ("floors", {"git/planted.py": "import nightcrew.engine"}),
    ("floors", {"journal/planted.py": "import nightcrew.git"}),
    ("floors", {"errors.py": "import nightcrew.core"}),
    ("floors", {"planted.py": '"""A room without a floor."""'}),
    ("cycles", {"git/one.py": "import nightcrew.git.two", "git/two.py": "import nightcrew.git.one"}),
    ("core-floors", {"core/ids.py": "import nightcrew.core.events"}),
    ("core-floors", {"core/planted.py": '"""A part of core without a floor."""'}),
    ("core-alone", {"core/phases/planted.py": "import nightcrew.errors"}),
    ("core-pure", {"core/phases/planted.py": "import time"}),
    ("core-pure", {"core/phases/planted.py": "def late() -> None:\n    import os.path\n"}),
    ("faces", {"cli/planted.py": "import nightcrew.core.events"}),
    ("adapters", {"agents/planted.py": "import subprocess"}),
    ("adapters", {"agents/planted.py": "import nightcrew.proc"}),
    ("adapter-siblings", {"agents/one.py": "import nightcrew.agents.two", "agents/two.py": ""}),
    ("phase-siblings", {"core/phases/one.py": "import nightcrew.core.phases.two", "core/phases/two.py": ""}),
    ("proc-door", {"app/planted.py": "import nightcrew.proc"}),
    ("processes", {"git/planted.py": "import subprocess"}),
    ("threads", {"journal/planted.py": "import asyncio"}),
    ("supervisor", {"proc/supervise.py": "import msgspec"}),
    ("supervisor", {"proc/supervise.py": "import nightcrew.errors"}),
    ("supervisor", {"proc/processes.py": "import nightcrew.proc.call"}),
]


def contracts() -> list[str]:
    """The ids of all contracts in `.importlinter`, in its order."""
    parser = ConfigParser()
    parser.read(CONTRACTS)
    return [section.removeprefix(PREFIX) for section in parser.sections() if section.startswith(PREFIX)]


def check(house: Path, contract: str) -> subprocess.CompletedProcess[str]:
    """Run one contract over the copy below `house`; its own process, because the checker imports what it checks."""
    program = str(Path(sys.executable).with_name("lint-imports"))
    argv = [program, "--contract", contract, "--no-cache", "--no-logo", str(house / CONTRACTS.name)]
    return subprocess.run(argv, cwd=house, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the sources and the contracts that a test may spoil."""
    shutil.copytree(ROOT / "src/nightcrew", tmp_path / "nightcrew", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CONTRACTS, tmp_path)
    return tmp_path


def test_every_contract_has_a_plant() -> None:
    """A contract that nobody saw fail may hold nothing: each id in `.importlinter` is planted against below."""
    assert {contract for contract, _ in PLANTS} == set(contracts())


@pytest.mark.parametrize("contract", contracts())
def test_the_house_keeps_its_floors(house: Path, contract: str) -> None:
    """The sources as they are keep every contract, so that the failures below come from the plants."""
    done = check(house, contract)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("contract", "plant"), PLANTS, ids=[f"{name}-{number}" for number, (name, _) in enumerate(PLANTS)])
def test_a_wrong_import_breaks_its_contract(house: Path, contract: str, plant: dict[str, str]) -> None:
    """A module that breaks a floor fails the build, also when the import hides in a function."""
    for path, source in plant.items():
        with (house / "nightcrew" / path).open("a") as file:
            file.write(f"\n{source}\n")
    done = check(house, contract)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout or "exhaustive" in done.stdout, done.stdout + done.stderr
