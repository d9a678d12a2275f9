"""What every test stands on: an environment of its own, a sealed git, and the two paces of the property tests.

Builders of repositories and runs live in `tests/support`, not here.
"""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

KEPT = frozenset({"CI", "HANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"})
"""All that a test may see of the caller's environment (besides what pytest and its workers tell each other)."""

HOME = pytest.StashKey[Path]()

GITCONFIG = """\
[user]
    name = Tester
    email = tester@localhost
[init]
    defaultBranch = main
[commit]
    gpgsign = false
[gc]
    auto = 0
[advice]
    detachedHead = false
"""


def environment(home: Path) -> dict[str, str]:
    """The variables of a machine on which nobody ever set anything, with `home` as its only private folder.

    An agent's login, a proxy or a git alias of the person at the keyboard must not decide a test, so whatever is not
    named here is left out.
    """
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "NIGHTCREW_HOME": str(home / "nightcrew"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_DATE": "1767225600 +0000",
        "GIT_COMMITTER_DATE": "1767225600 +0000",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
        "USER": "tester",
        "LOGNAME": "tester",
    }


def pytest_configure(config: pytest.Config) -> None:
    """Move into a private HOME before any test module is imported; each worker has its own."""
    home = Path(tempfile.mkdtemp(prefix="nightcrew-tests-"))
    config.stash[HOME] = home
    (home / ".gitconfig").write_text(GITCONFIG)
    for name in [name for name in os.environ if name not in KEPT and not name.startswith("PYTEST")]:
        del os.environ[name]
    os.environ.update(environment(home))
    time.tzset()
    # What begins in the background, or under nohup, ignores these; what the tests start must not.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    pace("ci" if "CI" in os.environ else "fast")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind; read-only folders that a test made are no reason to fail."""
    shutil.rmtree(config.stash[HOME], ignore_errors=True)


def pace(profile: str) -> None:
    """Load a Hypothesis profile: `fast` at the keyboard, `ci` four times as thorough; both repeat exactly."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("fast", max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=slow)
    settings.register_profile("ci", parent=settings.get_profile("fast"), max_examples=200)
    settings.load_profile(profile)
