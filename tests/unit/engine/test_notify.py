"""Notifications: the command runs as it is written, and nothing it does can hurt a run."""

from pathlib import Path

from nightcrew.engine.waits import notify

ENV = {"PATH": "/usr/bin:/bin"}


def test_the_summary_is_one_argument_that_no_shell_reads(tmp_path: Path) -> None:
    """Quotes, dollars and line ends of a summary stay words; it is put wherever the placeholder stands."""
    command = ("sh", "-c", 'printf "%s|%s" "$1" "$2" > told', "sh", "{summary}", "run: {summary}")
    notify(command, 'a "b" $(touch x)\n`c` \0', env=ENV, cwd=tmp_path)
    assert (tmp_path / "told").read_text() == 'a "b" $(touch x) `c`|run: a "b" $(touch x) `c`'
    assert not (tmp_path / "x").exists()


def test_what_goes_wrong_is_never_raised(tmp_path: Path) -> None:
    """A missing program, an exit code, a command that hangs, a missing folder, letters that cannot be written."""
    notify(("no-such-program",), "x", env=ENV, cwd=tmp_path)
    notify(("sh", "-c", "exit 4"), "x", env=ENV, cwd=tmp_path)
    notify(("sleep", "60"), "x", env=ENV, cwd=tmp_path, timeout_s=0.2)
    notify(("true",), "x", env=ENV, cwd=tmp_path / "gone")
    notify(("sh", "-c", 'printf "%s" "$1" > told', "sh", "{summary}"), "\ud800", env=ENV, cwd=tmp_path)
    assert (tmp_path / "told").read_text() == "?"
