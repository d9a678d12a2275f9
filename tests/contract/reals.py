"""The real agent programs: where each comes from, the account with a dummy key that it gets, and a workspace to work in."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nightcrew.agents import catalog
from nightcrew.agents.base import Judged, Turn
from nightcrew.core.ids import AgentId, SeatKey, session_id
from support import crew
from support.models.server import ModelServer
from unit.agents.ends import End, returned


class Real(NamedTuple):
    """A program: its package with the version, its model, and how many requests of its own a fault may take."""

    package: str
    model: str
    tries: int

    @property
    def version(self) -> str:
        """The pinned version."""
        return self.package.rpartition("@")[2]


REALS = {
    "claude": Real("@anthropic-ai/claude-code@2.1.332", "claude-sonnet-4-5", 4),
    "codex": Real("@openai/codex@0.171.0", "gpt-5.5", 6),
    "opencode": Real("opencode-ai@1.18.33", "lab/model", 12),
    "gemini": Real("@google/gemini-cli@0.61.0", "gemini-2.5-pro", 4),
    "qwen": Real("@qwen-code/qwen-code@0.24.4", "model", 12),
}


SPEAKERS = {
    "gemini": ("gemini", "--acp", "-m", "gemini-2.5-pro", "--skip-trust"),
    "opencode": ("opencode", "acp"),
    "qwen": ("qwen", "--acp", "-m", "model", "--auth-type", "openai"),
}
"""Programs that speak the Agent Client Protocol, and how each is told to."""


def account(kind: str, url: str, home: Path) -> dict[str, str]:
    """The variables of an account that has only a dummy key for this service; what the program reads from files is in `home` then."""
    match kind:
        case "claude":
            return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-dummy"}
        case "codex":
            told = f'model_provider = "lab"\n[model_providers.lab]\nname = "lab"\nbase_url = "{url}/v1"\n'
            _file(home / ".codex/config.toml", f'{told}env_key = "OPENAI_API_KEY"\nwire_api = "responses"\n')
            return {"OPENAI_API_KEY": "sk-dummy"}
        case "opencode":
            models = {"model": {"name": "model", "limit": {"context": 200000, "output": 8000}}}
            options = {"baseURL": f"{url}/v1", "apiKey": "sk-dummy"}
            lab = {"npm": "@ai-sdk/openai-compatible", "name": "lab", "options": options, "models": models}
            return {"OPENCODE_CONFIG_CONTENT": json.dumps({"share": "disabled", "model": "lab/model", "provider": {"lab": lab}})}
        case "gemini":
            _file(home / ".gemini/settings.json", '{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
            return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}
        case _:
            return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-dummy"}


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Crew(NamedTuple):
    """A program, its account and a workspace."""

    kind: str
    program: Path
    server: ModelServer
    env: Mapping[str, str]
    folder: Path

    def minted(self, generation: int = 0) -> str:
        """A conversation id as a run would mint it."""
        return session_id("contract", SeatKey("impl-A"), generation, AgentId(self.kind))

    def turn(self, prompt: str, **told: Any) -> Turn:
        """A turn in the workspace."""
        file = self.folder / "prompt"
        file.write_text(prompt)
        passed = {name: self.env[name] for name in catalog.kinds()[self.kind].passes if name in self.env}
        slot, model = self.folder / "slot", REALS[self.kind].model if self.kind in REALS else ""
        return Turn(program=str(self.program), prompt_file=file, cwd=slot, model=model, env=passed, **told)

    def start(self, turn: Turn) -> subprocess.Popen[bytes]:
        """Start a turn as the engine would, without a supervisor."""
        launch = catalog.adapter(self.kind).command(turn)
        env, pipe = {**self.env, **launch.env}, subprocess.PIPE
        for path in launch.login_paths:
            if not path.endswith(".json"):
                Path(path.replace("~", env["HOME"])).mkdir(parents=True, exist_ok=True)
        with turn.prompt_file.open("rb") as prompt:
            return subprocess.Popen(
                launch.argv, cwd=turn.cwd, env=env, stdin=prompt, stdout=pipe, stderr=pipe, start_new_session=True
            )

    def judged(self, turn: Turn, process: "subprocess.Popen[bytes]", stopped_by: str = "") -> Judged:
        """Wait for the end of a turn and judge it."""
        out, err = process.communicate()
        end: End = returned(process.returncode, stopped_by)
        return catalog.adapter(self.kind).judge(turn, end, out, err, time.time(), "UTC")

    def play(self, prompt: str, **told: Any) -> Judged:
        """Play one turn to its end."""
        turn = self.turn(prompt, **told)
        with self.start(turn) as process:
            return self.judged(turn, process)


def environment(kind: str, folders: Iterable[Path], server: ModelServer, home: Path) -> dict[str, str]:
    """A clean environment with a HOME of its own, the programs of these folders first."""
    path = ":".join([*map(str, folders), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", **account(kind, server.url, home)}


class Bench(crew.Crew):
    """A machine with nightcrew and real programs; every seat asks them in this order. The gate wants `new.txt`."""

    def __init__(
        self, folder: Path, server: ModelServer, folders: Iterable[Path], kinds: tuple[str, ...], tables: dict[str, Any]
    ) -> None:
        """Make the machine, the accounts and the settings; without `agents` among them each kind is one."""
        super().__init__(folder)
        self.server = server
        for kind in kinds:
            self.env |= environment(kind, folders, server, self.home)
        self.env["PATH"] = f"{self.env['PATH']}:{Path(sys.executable).parent}"
        agents = tables.pop("agents", [{"id": kind, "kind": kind, "model": REALS[kind].model} for kind in kinds])
        gate, land = {"gate": ["test -f new.txt"]}, {"mode": "local", "target": "main"}
        self.settle(*agents, **{"verify": gate, "land": land, "limits": {"usd": "none"}, **tables})
        self.git("switch", "-qc", "mine")

    def account_changes(self, **variables: str | None) -> None:
        """Change variables of the account; None takes one away."""
        self.env = {name: value for name, value in {**self.env, **variables}.items() if value is not None}

    def left(self) -> list[str]:
        """The command lines of all processes of this machine's turns: they have its HOME in their environment."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                mine = entry.name.isdigit() and f"HOME={self.home}".encode() in (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes() if mine else b""
            except OSError:
                continue
            if command and int(entry.name) != os.getpid():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        return found
