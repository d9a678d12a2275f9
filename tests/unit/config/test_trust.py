"""Trust: nothing of a repository's file runs before its executable parts were seen by a person (rulings 35)."""

import threading
from pathlib import Path

from nightcrew.config.build import Config, load, trust, trusted
from nightcrew.config.layers import KindInfo
from nightcrew.core.roster import Answers

KINDS = {"command": KindInfo((Answers.Edit,), argv=True)}
AGENT = '[[agents]]\nid = "x"\nkind = "command"\ncommand = ["x", "two words"]\n'


def read(top: Path, text: str, machine: str = "") -> Config:
    """Load this text as the repository's file."""
    top.mkdir(parents=True, exist_ok=True)
    (top / "config.toml").write_text(machine)
    (top / "nightcrew.toml").write_text(text)
    return load(top, machine_file=top / "config.toml", kinds=KINDS)


def test_the_digest_follows_what_would_be_executed_and_nothing_else(tmp_path: Path) -> None:
    """Comments, order, limits and landing do not ask again; any change of what runs, is handed over or may be written does."""
    base = '[verify]\ngate = "make"\nenv = ["CI"]\n'
    digest = read(tmp_path, base).digest
    same = [
        '# c\n[limits]\nturns = 3\n[verify]\nenv = ["CI"]\ngate = ["make"]\n',
        base + 'timeout = "1m"\n[land]\nmode = "push"\n',
    ]
    other = [
        base.replace("make", "make x"),
        base.replace("CI", "TOKEN"),
        base + 'setup = "x"\n',
        base + 'pre_gate = "x"\n',
        base + 'check = "x"\n',
        base + 'e2e = "x"\n',
        base + 'writable = "/"\n',
        base + '[notify]\ncommand = ["x"]\n',
        base + AGENT,
        base + AGENT + 'env = { A = "b" }\n',
        base + AGENT + 'env = { A = { command = "b" } }\n',
    ]
    assert {read(tmp_path, text).digest for text in same} == {digest}
    assert len({digest, *(read(tmp_path, text).digest for text in other)}) == len(other) + 1


def test_the_machines_file_needs_no_trust(tmp_path: Path) -> None:
    """What the user wrote on this machine is the user's word."""
    config = read(tmp_path, "[limits]\nturns = 3\n[verify]\ngate = []\n", AGENT + '[verify]\nsetup = "x"\n')
    assert (config.digest, config.executes) == ("", ())
    assert trusted(tmp_path / "home", "repo", config.digest)


def test_what_would_run_can_be_shown_without_values(tmp_path: Path) -> None:
    """One line for each thing, as it would run; an agent's plain values stay unsaid."""
    text = AGENT + 'env = { A = "hunter2", B = { command = "pass b" } }\n[verify]\ngate = ["make a", "make b"]\nenv = "CI"\n'
    assert read(tmp_path, text).executes == (
        "agent x: x 'two words'",
        "agent x: pass b",
        "verify.gate: make a",
        "verify.gate: make b",
        "verify.env: CI",
    )


def test_trust_is_for_one_repository_and_one_digest(tmp_path: Path) -> None:
    """Another repository with the same file, or a changed file, is asked for again; an older one is remembered."""
    home = tmp_path / "home"
    assert not trusted(home, "r1", "d1")
    trust(home, "r1", "d1")
    trust(home, "r1", "d1")
    trust(home, "r1", "d2")
    words = (("r1", "d1"), ("r1", "d2"), ("r2", "d1"), ("r1", "d"))
    assert [trusted(home, repo, digest) for repo, digest in words] == [True, True, False, False]


def test_the_memory_is_private(tmp_path: Path) -> None:
    """0700 and 0600, whatever the umask lets through: nobody else learns what a person trusts, or says it for them."""
    home = tmp_path / "a/home"
    trust(home, "r", "d")
    assert {path.stat().st_mode & 0o777 for path in (home, home / "trust")} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in (home / "trust").iterdir()} == {0o600}


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    """Every word is a file of its own, so every word given is kept."""
    threads = [threading.Thread(target=trust, args=(tmp_path, f"r{n}", "d")) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(trusted(tmp_path, f"r{n}", "d") for n in range(12))
