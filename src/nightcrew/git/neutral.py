"""A candidate as judges see it: one commit that says nothing of its author, its patch, and the names that what it adds gives away."""

import re
from tempfile import TemporaryDirectory
from typing import NamedTuple

from nightcrew.git.collect import Collected, commit_tree, compared, tree_of
from nightcrew.git.landing import NEUTRAL
from nightcrew.git.repo import NOTHING, Repo, pin
from nightcrew.git.sealed import git, run
from nightcrew.redact import NAMELESS


class Neutral(NamedTuple):
    """The commit with its numbers and patch, and the words that were found in it, in small letters."""

    found: Collected
    leaks: tuple[str, ...]


def squash(repo: Repo, run_id: str, label: str, base: str, head: str, named: re.Pattern[str], *, redact: bool) -> Neutral:
    """One commit of the neutral identity on `base` with the tree of `head`, dated alike for all; made again it is the same.

    `named` finds the words that tell of an author (`redact.names`); `redact` takes those out of names and texts of files.
    """
    one = commit_tree(repo, tree_of(repo, head), base, f"candidate {label}\n", 0)
    found, paths = compared(repo, base, Collected(one, commits=1))
    if (leaks := _leaks(repo, base, found.patch, paths, named)) and redact:
        one = commit_tree(repo, _redacted(repo, base, head, leaks), base, f"candidate {label}\n", 0)
        found, _ = compared(repo, base, Collected(one, commits=1))
    pin(repo, run_id, f"{NEUTRAL}{label}", one)
    return Neutral(found, leaks)


def _leaks(repo: Repo, base: str, patch: bytes, paths: list[str], named: re.Pattern[str]) -> tuple[str, ...]:
    # What the repository itself speaks of, in a file or as one's name, tells of nobody.
    added = b"\n".join(line for line in patch.splitlines() if line.startswith(b"+")).decode(errors="replace")
    words = {word.lower() for word in named.findall("\n".join((added, *paths)))}
    files = git(repo, "ls-tree", "-r", "-z", "--name-only", base).lower() if words else ""
    grep = ("grep", "-q", "-i", "-F", "-e")
    return tuple(sorted(word for word in words if word not in files and run(repo, *grep, word, base, ok=(0, 1)).code))


def _redacted(repo: Repo, base: str, head: str, leaks: tuple[str, ...]) -> str:
    # The tree of `head` without those words; what is no text keeps its bytes.
    find = re.compile("|".join(map(re.escape, sorted(leaks, key=len, reverse=True))), re.IGNORECASE)
    words = (part for word in leaks for part in ("-e", word))
    texts = git(repo, "grep", "-l", "-z", "-I", "-i", "-F", *words, head, ok=(0, 1)).split("\0")
    telling = {name.removeprefix(f"{head}:") for name in texts}
    said = git(repo, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=d", base, head).split("\0")
    lines = ""
    for (_, mode, _, blob, _), path in ((about.split(" "), path) for about, path in zip(said[::2], said[1::2], strict=False)):
        if path in telling:
            text = run(repo, "cat-file", "blob", blob).out.decode("utf-8", "surrogateescape")
            blob = git(repo, "hash-object", "-w", "--stdin", stdin=find.sub(NAMELESS, text).encode("utf-8", "surrogateescape"))  # noqa: PLW2901
        lines += f"0 {NOTHING}\t{path}\0{mode} {blob}\t{find.sub(NAMELESS, path)}\0"
    with TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        git(repo, "read-tree", head, env=env)
        git(repo, "update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), env=env)
        return git(repo, "write-tree", env=env)
