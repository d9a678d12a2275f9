"""Real agent programs, installed from their registry at a pinned version, and a model service on loopback for them.

They run in a clean environment with a fresh HOME and a dummy key; the account's own settings are never read or written.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.models.scenario import Scenario
from support.models.server import ModelServer

CLAUDE = "@anthropic-ai/claude-code@2.1.332"

WAY_OUT = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE")
"""How this machine reaches a registry: proxies and certificates, for the installation alone."""

OUTSIDE = pytest.StashKey[dict[str, str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Note the way out before the tests' own environment takes the caller's place."""
    config.stash[OUTSIDE] = {name: os.environ[name] for name in WAY_OUT if name in os.environ}


def installed(package: str, name: str, config: pytest.Config) -> Path:
    """The program `name` of an npm package with its version, from a cache in the checkout or newly installed into it.

    Skips the test with one line where it cannot be installed; in CI that is a failure.
    """
    folder = config.rootpath / ".cache" / "contract" / package.replace("/", "_").lstrip("@")
    program = folder / "node_modules" / ".bin" / name
    if program.exists():
        return program
    npm = shutil.which("npm")
    why = "there is no npm on PATH" if npm is None else _install(npm, package, folder, config.stash[OUTSIDE])
    if why and "CI" in os.environ:
        pytest.fail(f"{package} cannot be installed: {why}")
    if why:
        pytest.skip(f"{package} cannot be installed: {why}")
    return program


def _install(npm: str, package: str, folder: Path, way_out: dict[str, str]) -> str:
    """Install a package into a folder that appears only when it is complete; why not, if it cannot be."""
    making = folder.with_name(folder.name + ".making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    (making.parent / ".gitignore").write_text("*\n")
    # How packages are fetched here is the account's own choice; everything else of its HOME stays out of the tests.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    own = {"npm_config_userconfig": str(home / ".npmrc"), "npm_config_cache": str(making / "npm-cache")}
    argv = [npm, "install", "--prefix", str(making), "--no-audit", "--no-fund", "--no-update-notifier", package]
    made = subprocess.run(
        argv, env={**os.environ, **way_out, **own}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    shutil.rmtree(making / "npm-cache", ignore_errors=True)
    if made.returncode:
        return next(iter(made.stderr.strip().splitlines()), f"npm ended with {made.returncode}")
    making.rename(folder)
    return ""


@pytest.fixture(scope="session")
def claude_program(pytestconfig: pytest.Config) -> Path:
    """The real Claude Code."""
    return installed(CLAUDE, "claude", pytestconfig)


@pytest.fixture
def model_server() -> Iterator[Callable[[Scenario], ModelServer]]:
    """Starts a model service that answers by a scenario; it ends with the test."""
    with ExitStack() as stack:
        yield lambda scenario: stack.enter_context(ModelServer(scenario))


@pytest.fixture
def claude_env(tmp_path: Path) -> Callable[[ModelServer], dict[str, str]]:
    """The environment of an account that has only a dummy key for that service, and a HOME of its own."""
    home = tmp_path / "home"
    home.mkdir()

    def environment(server: ModelServer) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-dummy",
        }

    return environment
