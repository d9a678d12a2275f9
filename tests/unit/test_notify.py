"""Notifications: the command runs as it is written, and nothing it does can hurt a run."""

from pathlib import Path

from nightcrew.notify import notify

ENV = {"PATH": "/usr/bin:/bin"}


def test_the_summary_is_one_argument_that_no_shell_reads(tmp_path: Path) -> None:
    """Quotes, dollars and line ends of a summary stay words; it is put wherever the placeholder stands."""
    command = ("sh", "-c", 'printf "%s|%s" "$1" "$2" > told', "sh", "{summary}", "run: {summary}")
    assert not notify(command, 'a "b" $(touch x)\n`c` \0', env=ENV, cwd=tmp_path)
    assert (tmp_path / "told").read_text() == 'a "b" $(touch x) `c`|run: a "b" $(touch x) `c`'
    assert not (tmp_path / "x").exists()


def test_without_a_command_nothing_happens(tmp_path: Path) -> None:
    """No setting, no notification, no complaint."""
    assert not notify((), "x", env=ENV, cwd=tmp_path)


def test_what_goes_wrong_is_said_in_one_line_and_never_raised(tmp_path: Path) -> None:
    """A missing program, an exit code, a command that hangs, a missing folder, letters that cannot be written."""
    assert "exit code 127" in notify(("no-such-program",), "x", env=ENV, cwd=tmp_path)
    failed = notify(("sh", "-c", "echo one >&2; echo two >&2; exit 4"), "x", env=ENV, cwd=tmp_path)
    assert failed == "notify: sh ended with exit code 4: two"
    assert notify(("sleep", "60"), "x", env=ENV, cwd=tmp_path, timeout_s=0.2).startswith("notify: sleep did not end")
    assert "exit code 126" in notify(("true",), "x", env=ENV, cwd=tmp_path / "gone")
    assert not notify(("true", "{summary}"), "\ud800", env=ENV, cwd=tmp_path)
