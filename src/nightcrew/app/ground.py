"""What a run here would stand on: the settings that hold, trust in what they execute, the agents. Starts nothing but `AGENT --version`."""

import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from nightcrew.agents import catalog
from nightcrew.app.home import home_of
from nightcrew.config.build import REPOSITORY_FILE, Config, Row, load, machine_file, resolved, trust, trusted
from nightcrew.config.first import guess, init_text
from nightcrew.config.layers import KindInfo
from nightcrew.config.values import version
from nightcrew.core.roster import Agent, AgentRole
from nightcrew.database import unusable
from nightcrew.errors import UserError
from nightcrew.git.repo import Repo, identity, open_repo, repo_id, target
from nightcrew.ledger import Ledger

LOW_BYTES = 1024**3
MACHINE_FILE = "~/.config/nightcrew/config.toml"


class Check(Struct, frozen=True):
    """One thing that `doctor` looked at: what it is, whether it will do, what was found, and what to do about it."""

    name: str
    ok: bool
    text: str
    hint: str = ""


class AgentRow(Struct, frozen=True):
    """One agent as `agents` shows it; `cooling_until` in seconds since the epoch, 0 = free; `login` is known, unknown or not asked."""

    id: str
    kind: str
    model: str
    program: str
    missing: str
    roles: tuple[str, ...]
    answers: tuple[str, ...]
    cooling_until: float
    why: str
    can: tuple[str, ...]
    version: str
    misbehaves: str
    login: str


def load_config(repo: Repo | None, env: Mapping[str, str], overrides: Mapping[str, str]) -> Config:
    """The settings that hold for a repository; with no agents configured, those found on PATH."""
    models = {"program", "player"}  # an entry of these may name one
    known = catalog.kinds().items()
    kinds = {name: KindInfo(kind.answers, kind.runs != "program", kind.runs in models, kind.money) for name, kind in known}
    top, found = repo.work_tree if repo else None, tuple(catalog.found(env.get("PATH", "")))
    return load(top, machine_file=machine_file(env), kinds=kinds, overrides=overrides, found=found)


def init(cwd: Path, env: Mapping[str, str]) -> Path:
    """Write a commented nightcrew.toml from what the repository shows, trusted since we wrote it; an existing one is kept."""
    repo = open_repo(cwd, env)
    if repo.work_tree is None:
        raise UserError("a bare repository has no place for settings", "use the machine's file")
    path = repo.work_tree / REPOSITORY_FILE
    if path.exists():
        raise UserError(f"{path} exists already", "edit it; nightcrew doctor checks it")
    with unusable(path):
        path.write_text(init_text(guess(repo.work_tree), tuple(catalog.found(env.get("PATH", "")))))
    trust_here(cwd, env)
    return path


def trust_here(cwd: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Trust what this repository's file would execute; those lines."""
    config = load_config(repo := open_repo(cwd, env), env, {})
    if config.digest:
        with unusable(home_of(env)):
            trust(home_of(env), repo_id(repo), config.digest)
    return config.executes


def executes(cwd: Path, env: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """What this repository's file would execute, and whether a person trusts all of it, as it is now (rulings 35)."""
    config = load_config(repo := open_repo(cwd, env), env, {})
    return config.executes, trusted(home_of(env), repo_id(repo), config.digest)


def doctor(cwd: Path, env: Mapping[str, str]) -> tuple[list[Check], tuple[Row, ...]]:
    """What a run here would stand on, checked without starting anything of the repository's; and every setting with its origin."""
    checks, repo = _machine(home_of(env)), None
    try:
        repo = open_repo(cwd, env)
        checks.append(Check("repository", ok=True, text=str(repo.work_tree or repo.git_dir)))
        where = target(repo)
        checks.append(Check("target", ok=True, text=f"{where.remote}/{where.branch}" if where.remote else where.branch))
        checks.append(Check("identity", ok=True, text=identity(repo)))
    except UserError as error:
        checks.append(Check("repository", ok=False, text=error.message, hint=error.hint))
    try:
        config = load_config(repo, env, {})
    except UserError as error:
        return [*checks, Check("settings", ok=False, text=error.message, hint=error.hint)], ()
    checks += [Check("note", ok=True, text=str(note)) for note in (*config.notes, *config.warnings)]
    if repo and not trusted(home_of(env), repo_id(repo), config.digest):
        checks.append(Check("trust", ok=False, text=f"{REPOSITORY_FILE} is not trusted yet", hint="nightcrew trust"))
    rows = _agents(config, env)
    for row in rows:
        bad = f" ({row.misbehaves})" if row.misbehaves else ""
        told = f", version {row.version or 'unknown'}{bad}, login {row.login}" if row.login else ""
        found = f"{row.program}{told}{'; ' if row.can else ''}{', '.join(row.can)}"
        checks.append(Check(f"agent {row.id}", ok=not row.missing, text=row.missing or found))
    if not any(not r.missing and AgentRole.Developer in r.roles for r in rows):
        told = "nobody can work" + f"; looked for {', '.join(catalog.looked_for())} on PATH" * (not config.roster)
        checks.append(Check("agents", ok=False, text=told, hint=f"describe one under [[agents]] in {MACHINE_FILE}"))
    return checks, resolved(config)


def _machine(home: Path) -> list[Check]:
    from nightcrew.engine.jobs import mode_of  # noqa: PLC0415 — brings the engine, which the others do without

    mode, place = mode_of("auto"), next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    found = (
        ("sqlite", sqlite3.sqlite_version_info >= (3, 31), sqlite3.sqlite_version, "install 3.31 or newer"),
        ("sandbox", mode == "bwrap", mode, "install bubblewrap, or in the clone: pip install '.[sandbox]'"),
        ("disk", free > LOW_BYTES, f"{free / 1024**3:.1f} GiB free at {place}", "make room"),
    )
    return [Check(name, ok, text, "" if ok else hint) for name, ok, text, hint in found]


def agents(cwd: Path, env: Mapping[str, str], clear: str = "") -> list[AgentRow]:
    """The roster here: where each program is, what it can and sits for, who cools down until when. `clear`: an agent a person knows to be free again."""
    repo = None
    with suppress(UserError):
        repo = open_repo(cwd, env)
    config = load_config(repo, env, {})
    if clear:
        known = {str(agent.id): agent for agent in config.roster}
        if clear not in known:
            raise UserError(f"there is no agent {clear!r}", f"there are: {', '.join(known) or 'none'}")
        Ledger(home_of(env)).warm(known[clear])
    return _agents(config, env)


def _agents(config: Config, env: Mapping[str, str]) -> list[AgentRow]:
    """The roster, then the programs on PATH that no settings name."""
    ledger, named = Ledger(home_of(env)) if (home_of(env) / "ledger.db").exists() else None, {a.kind for a in config.roster}
    path, home = env.get("PATH", ""), Path(env.get("HOME", "/"))

    def row(agent: Agent) -> AgentRow:
        found, cooling = catalog.resolve(agent, path), ledger and ledger.cooling_of(agent, time.time())
        kind, tells, (until, why) = catalog.kinds()[agent.kind], "", (cooling.until, cooling.why) if cooling else (0.0, "")
        roles, login = tuple(role for role in AgentRole if agent.id in config.roles.chain(role)), ""
        if found.program and kind.runs == "program":
            known = any(env.get(name) for name in kind.passes) or any((home / file).exists() for file in kind.login)
            tells, login = version(found.program, env), "known" if known else "unknown"
        return AgentRow(
            agent.id, agent.kind, agent.model, found.program, found.why_not, roles, agent.answers, until, why, kind.can, tells,
            catalog.misbehaves(agent.kind, tells), login,
        )  # fmt: skip

    return [row(agent) for agent in (*config.roster, *(agent for agent in catalog.found(path) if agent.kind not in named))]
