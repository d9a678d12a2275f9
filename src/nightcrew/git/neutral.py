"""A candidate as judges see it: one commit that says nothing of its author, its patch, and the names that what it adds gives away."""

import re
from tempfile import TemporaryDirectory

from nightcrew.git.collect import Collected, commit_tree, compared, tree_of
from nightcrew.git.repo import NOTHING, Repo, pin
from nightcrew.git.sealed import git, run
from nightcrew.redact import NAMELESS


def squash(
    repo: Repo, run_id: str, label: str, base: str, head: str, named: re.Pattern[str], *, redact: bool
) -> tuple[Collected, tuple[str, ...]]:
    """One commit of the neutral identity on `base` with the tree of `head`; `redact` takes what `named` finds, told too, out of its files."""
    one = commit_tree(repo, tree_of(repo, head), base, f"candidate {label}\n", 0)
    found, paths = compared(repo, base, Collected(one, commits=1))
    if (leaks := _leaks(repo, base, found.patch, paths, named)) and redact:
        one = commit_tree(repo, _redacted(repo, base, head, leaks), base, f"candidate {label}\n", 0)
        found, _ = compared(repo, base, Collected(one, commits=1))
    pin(repo, run_id, f"neutral/{label}", one)
    return found, leaks


def _leaks(repo: Repo, base: str, patch: bytes, paths: list[str], named: re.Pattern[str]) -> tuple[str, ...]:
    # What the repository itself speaks of, in a file or as one's name, tells of nobody.
    added = b"\n".join(line for line in patch.splitlines() if line.startswith(b"+")).decode(errors="replace")
    words = {word.lower() for word in named.findall("\n".join((added, *paths)))}
    files = git(repo, "ls-tree", "-r", "-z", "--name-only", base).lower() if words else ""
    grep = ("grep", "-q", "-i", "-F", "-e")
    return tuple(sorted(word for word in words if word not in files and run(repo, *grep, word, base, ok=(0, 1)).code))


def _redacted(repo: Repo, base: str, head: str, leaks: tuple[str, ...]) -> str:
    # The tree of `head` without those words; what is no text keeps its bytes.
    find = re.compile(b"|".join(re.escape(word.encode()) for word in sorted(leaks, reverse=True)), re.IGNORECASE)
    texts = run(repo, "grep", "-l", "-z", "-I", "-i", "-F", *(f"-e{word}" for word in leaks), head, ok=(0, 1)).out.split(b"\0")
    said, lines = run(repo, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=d", base, head).out.split(b"\0"), b""

    def other(found: re.Match[bytes]) -> bytes:  # another for each word, so that two files never get one name
        n = leaks.index(found[0].decode().lower())
        return NAMELESS.encode() + (b"-%d" % (n + 1) if n else b"")

    for about, path in zip(said[::2], said[1::2], strict=False):
        mode, blob = about.split(b" ")[1], about.split(b" ")[3]
        if b"%b:%b" % (head.encode(), path) in texts:
            text = run(repo, "cat-file", "blob", blob.decode()).out
            blob = run(repo, "hash-object", "-w", "--stdin", stdin=find.sub(other, text)).out.strip()
        lines += b"0 %b\t%b\0%b %b\t%b\0" % (NOTHING.encode(), path, mode, blob, find.sub(other, path))
    with TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        git(repo, "read-tree", head, env=env)
        git(repo, "update-index", "-z", "--index-info", stdin=lines, env=env)
        return git(repo, "write-tree", env=env)
