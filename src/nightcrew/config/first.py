"""The text of a first `nightcrew.toml` (`first.toml`), with what a repository's own files tell about how it is tested (`signs.toml`)."""

import re
import tomllib
from pathlib import Path

from nightcrew.core.roster import Agent

_HERE = Path(__file__).parent
Guess = tuple[str, str, str]  # a list of `[verify]` (`gate`, `setup` or `keep`), a value for it, and the file that tells it


def guess(repo_top: Path) -> tuple[Guess, ...]:
    """What the files at the top tell. A project's own word for everything is the whole gate. Starts no program."""
    looked = tomllib.loads((_HERE / "signs.toml").read_text("utf-8"))
    uv = "uv run " if (repo_top / "uv.lock").is_file() else ""
    install = next((line for lock, line in looked["install"].items() if (repo_top / lock).is_file()), "npm install")
    words = {"uv": uv, "python": uv or "python3 -m ", "install": install, "npm": install.split()[0]}
    found = [
        (key, value.format_map(words), file)
        for file, sign, key, value in looked["signs"]
        if (path := repo_top / file).is_file() and re.search(sign, path.read_text(errors="replace"), re.MULTILINE)
    ]
    whole = [one for one in found if re.fullmatch("gate (tox|.* (check|ci|verify))", f"{one[0]} {one[1]}")][:1]
    return tuple(one for one in found if one[0] != "gate" or one in (whole or found))


def init_text(guesses: tuple[Guess, ...] = (), agents: tuple[Agent, ...] = ()) -> str:
    """A settings file that loads without a mistake anywhere; limits stand in it as comments only (rulings 30)."""
    told = {"agents": ", ".join(agent.id for agent in agents) or "none"}
    for key, example in {"gate": "make test", "setup": "make install", "keep": "build/**"}.items():
        items = "".join(f'  "{value}",    # because of {file}\n' for of, value, file in guesses if of == key)
        told[key] = f"{key} = [\n{items}]" if items else f'# {key} = ["{example}"]    # nothing here told it'
    return (_HERE / "first.toml").read_text("utf-8").format_map(told)
