"""Write the table of docs/agents.md from the catalog: what each kind of agent can and cannot."""

from pathlib import Path

from nightcrew.agents import catalog

PAGE = Path(__file__).parents[1] / "docs" / "agents.md"
BEGIN, END = "<!-- the table: tools/agents.py -->\n", "<!-- end of the table -->\n"
HEAD = (
    "kind",
    "answers",
    "goes on with a conversation",
    "looks only by itself",
    "tells its reset",
    "tokens",
    "money",
    "silent while it tries again",
)


def table() -> str:
    """The table in Markdown."""
    rows = [HEAD, ("---",) * len(HEAD)]
    for name, kind in catalog.kinds().items():
        goes_on = {"": "no", "its own": "yes", "chosen": "yes, of an id we choose"}[kind.sessions]
        facts = (kind.looks, kind.resets, kind.tokens, kind.money, kind.silent)
        rows.append((f"`{name}`", ", ".join(kind.answers), goes_on, *("yes" if fact else "no" for fact in facts)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(page: str) -> str:
    """The page with the table as it is now."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
