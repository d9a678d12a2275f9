"""The papers beside the code are complete, and no file names a machine or an address it must not know."""

import re
from collections.abc import Iterator
from pathlib import Path

from architecture.sources import PACKAGE, ROOT, public_names, sources, tracked

AGENTS_LINES = 120
RECORD_LINES = 60
PROMISED = re.compile(r"`([\w/]+)::(\w+)`")
RECORD_PARTS = ("Context", "Decision", "Alternatives", "Consequences")
GLOSSARY_LINE = re.compile(r"^- \*\*(?P<word>[^*]+)\*\*: \S.*\.$")

# Written in pieces, so that this file does not hold what it looks for.
FOREIGN = re.compile(
    "|".join(
        [
            r"(?<![\w.}])/wo" + r"rk/",
            r"(?<![\w.}])/ro" + r"ot/",
            "py" + r"pi\.org",
            "python" + r"hosted\.org",
            "npm" + r"js\.(org|com)",
        ]
    )
)


def core_names() -> Iterator[tuple[str, bool]]:
    """Every public name at the top of a module of core, and whether it is a class."""
    for path in sources():
        if path.is_relative_to(PACKAGE / "core"):
            yield from ((name, is_class) for name, is_class in public_names(path) if not name.startswith("_"))


def glossary() -> dict[str, list[str]]:
    """The words of the glossary, in order, by the second-level heading they stand under."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "docs/glossary.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("- "):
            match = GLOSSARY_LINE.match(line)
            assert match, f"not '- **Word**: one sentence.': {line}"
            found.setdefault(heading, []).append(match["word"])
    return found


def records() -> list[Path]:
    """The decision records in the order of their names."""
    return sorted((ROOT / "docs/decisions").glob("*.md"))


def test_every_public_class_of_core_is_in_the_glossary() -> None:
    """The glossary defines each public class of core in one line, and defines nothing twice."""
    words = [word for under in glossary().values() for word in under]
    assert {name for name, is_class in core_names() if is_class} - set(words) == set()
    assert sorted(words) == sorted(set(words))


def test_every_word_of_the_glossary_exists() -> None:
    """A word under `In the code` is a name in core; a word under `In speech` is not a class there."""
    names = dict(core_names())
    words = glossary()
    assert set(words) == {"In the code", "In speech"}
    assert [word for word in words["In the code"] if word not in names] == []
    assert [word for word in words["In speech"] if names.get(word)] == []


def test_decision_records_are_numbered_without_gaps() -> None:
    """Records are called NNNN-title.md, from 0001 on, none missing and none twice."""
    names = [path.name for path in records()]
    assert names
    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


def test_a_decision_record_is_one_page_with_its_four_parts() -> None:
    """A record has its number and title on top and then context, decision, alternatives and consequences, on one page."""
    for path in records():
        text = path.read_text("utf-8")
        parts = tuple(line.removeprefix("## ") for line in text.splitlines() if line.startswith("## "))
        assert text.startswith(f"# {path.name[:4]} · "), path.name
        assert parts == RECORD_PARTS, path.name
        assert len(text.splitlines()) <= RECORD_LINES, path.name


def test_the_guide_for_agents_is_short() -> None:
    """AGENTS.md is read before every task and has at most 120 lines."""
    assert len((ROOT / "AGENTS.md").read_text("utf-8").splitlines()) <= AGENTS_LINES


def test_the_lock_names_no_index_and_pins_every_package_by_hash() -> None:
    """The lock has no address and no option; each requirement is one exact version with at least one hash."""
    text = (ROOT / "requirements.lock").read_text("utf-8")
    assert "://" not in text
    wanted = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    assert wanted
    assert [line for line in wanted if not re.match(r"[a-z0-9][a-z0-9._-]*==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []


def test_no_tracked_file_knows_a_machine_or_an_index() -> None:
    """Nothing in the repository holds a path of somebody's machine or the address of a package index."""
    found = []
    for path in tracked():
        text = path.read_text("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in FOREIGN.finditer(text)]
    assert found == []


def test_what_the_guide_links_to_is_there() -> None:
    """Every relative link in the Markdown files leads to a file of the repository."""
    links = [
        (path, target)
        for path in tracked()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#:\s]+)\)", path.read_text("utf-8"))
    ]
    assert links
    assert [f"{path.relative_to(ROOT)}: {target}" for path, target in links if not (path.parent / target).exists()] == []


def test_every_promise_names_tests_that_exist() -> None:
    """docs/promises.md: whatever is promised, or told to come of something, names a test, and each test that it names exists."""
    text = (ROOT / "docs/promises.md").read_text("utf-8")
    held, _, _ = text.partition("## What each sandbox mode holds")
    promises = re.split(r"^(?=- \*\*|\| (?!---|what ))", held, flags=re.MULTILINE)[1:]
    assert len(promises) > 40
    assert [promise for promise in promises if not PROMISED.search(promise)] == []
    named = set(PROMISED.findall(text))
    written = {path: path.read_text("utf-8") for path in {ROOT / f"tests/{file}.py" for file, _ in named}}
    missing = [f"{file}::{test}" for file, test in named if f"\ndef {test}(" not in written[ROOT / f"tests/{file}.py"]]
    assert missing == []
