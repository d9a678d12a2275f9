"""What people do around runs: look after the machine and the repository, read a diff, clear away what is proven safe."""

import shutil
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nightcrew.agents import catalog
from nightcrew.app import control, wiring
from nightcrew.app.home import home_of
from nightcrew.config import config_home
from nightcrew.config.build import REPOSITORY_FILE, machine_file
from nightcrew.config.first import init_text
from nightcrew.config.guess import guess
from nightcrew.config.report import Row, resolved
from nightcrew.config.trust import trust, trusted
from nightcrew.core.ids import RunId
from nightcrew.core.roster import AgentRole
from nightcrew.core.work import PipelinePhase
from nightcrew.engine.shelter import mode_of
from nightcrew.errors import UserError
from nightcrew.git import landing, workspace
from nightcrew.git.repo import Repo, identity, open_repo, repo_id, target
from nightcrew.git.sealed import git
from nightcrew.git.workspace import Pool
from nightcrew.ledger import Ledger

LOW_BYTES = 1024**3


class Check(NamedTuple):
    """One thing that `doctor` looked at: what it is, whether it will do, what was found, and what to do about it."""

    name: str
    ok: bool
    text: str
    hint: str = ""


class AgentRow(NamedTuple):
    """One agent as `agents` shows it; `cooling_until` in seconds since the epoch, 0 = free."""

    id: str
    kind: str
    model: str
    program: str
    missing: str
    roles: tuple[str, ...]
    answers: tuple[str, ...]
    cooling_until: float = 0.0
    why: str = ""


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def doctor(cwd: Path, env: Mapping[str, str]) -> tuple[list[Check], tuple[Row, ...]]:
    """What a run here would stand on, checked without starting anything of the repository's; and every setting with its origin."""
    checks = [_sqlite(), _sandbox(), _space(home_of(env))]
    repo: Repo | None = None
    try:
        repo = open_repo(cwd, env)
        checks.append(Check("repository", ok=True, text=str(repo.work_tree or repo.git_dir)))
        where = target(repo)
        checks.append(Check("target", ok=True, text=f"{where.remote}/{where.branch}" if where.remote else where.branch))
        checks.append(Check("identity", ok=True, text=identity(repo)))
    except UserError as error:
        checks.append(Check("repository", ok=False, text=error.message, hint=error.hint))
    try:
        config = control.load_config(repo, env, {})
    except UserError as error:
        return [*checks, Check("settings", ok=False, text=error.message, hint=error.hint)], ()
    checks += [Check("settings", ok=True, text=f"{note}") for note in (*config.notes, *map(str, config.warnings))]
    if repo is not None and config.digest and not trusted(home_of(env), repo_id(repo), config.digest):
        checks.append(Check("trust", ok=False, text=f"{REPOSITORY_FILE} is not trusted yet", hint="nightcrew trust"))
    rows = agents(cwd, env)
    checks += [Check(f"agent {r.id}", ok=not r.missing, text=r.missing or r.program) for r in rows]
    if not any(not r.missing and str(AgentRole.Developer) in r.roles for r in rows):
        looked = ", ".join(catalog.looked_for())
        checks.append(
            Check(
                "agents",
                ok=False,
                text=f"nobody can work; looked for {looked} on PATH",
                hint="describe one under [[agents]]",
            )
        )
    return checks, resolved(config)


def _sqlite() -> Check:
    return Check("sqlite", ok=sqlite3.sqlite_version_info >= (3, 31), text=sqlite3.sqlite_version)


def _sandbox() -> Check:
    mode = mode_of("auto")
    hint = "" if mode == "bwrap" else "install bubblewrap, or: pip install 'nightcrew[sandbox]'"
    return Check("sandbox", ok=mode == "bwrap", text=mode, hint=hint)


def _space(home: Path) -> Check:
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    return Check(
        "disk",
        ok=free > LOW_BYTES,
        text=f"{free / 1024**3:.1f} GiB free at {place}",
        hint="" if free > LOW_BYTES else "make room",
    )


def agents(cwd: Path, env: Mapping[str, str]) -> list[AgentRow]:
    """The roster here: where each program is, what it sits for, who cools down until when."""
    try:
        repo: Repo | None = open_repo(cwd, env)
    except UserError:
        repo = None
    config = control.load_config(repo, env, {})
    ledger = Ledger(home_of(env)) if (home_of(env) / "ledger.db").exists() else None
    rows = []
    for agent in config.roster:
        found = catalog.resolve(agent, env.get("PATH", ""))
        roles = tuple(str(role) for role in AgentRole if agent.id in config.roles.chain(role))
        cooling = ledger.cooling_of(agent, time.time()) if ledger else None
        rows.append(
            AgentRow(
                agent.id, agent.kind, agent.model, found.program, found.why_not, roles, tuple(map(str, agent.answers)),
                cooling.until if cooling else 0.0, cooling.why if cooling else "",
            )
        )  # fmt: skip
    return rows


def warm(cwd: Path, env: Mapping[str, str], agent: str) -> int:
    """Forget that an agent cools down, because a person knows better; how many entries went."""
    config = control.load_config(_repo_or_none(cwd, env), env, {})
    known = {a.id: a for a in config.roster}
    chosen = next((a for name, a in known.items() if name == agent), None)
    if chosen is None:
        raise UserError(f"there is no agent {agent!r}", f"there are: {', '.join(known) or 'none'}")
    return Ledger(home_of(env)).clear(chosen)


def _repo_or_none(cwd: Path, env: Mapping[str, str]) -> Repo | None:
    try:
        return open_repo(cwd, env)
    except UserError:
        return None


def diff(run: RunId, env: Mapping[str, str]) -> str:
    """The work of a run as a patch: the commit that lands, or what its candidate holds so far."""
    state = control.view(run, env)
    repo = open_repo(wiring.open_journal(env).place(state.started.repo), env)
    winner = state.winning or next(iter(state.candidates.values()), None)
    if state.commit:
        return git(repo, "diff", "--no-ext-diff", f"{state.commit}^", state.commit)
    if winner is None or not winner.changed:
        raise UserError(f"run {run} has changed nothing so far", "nightcrew show tells where it stands")
    return git(repo, "diff", "--no-ext-diff", winner.start, winner.change.head)


# ── setting up ────────────────────────────────────────────────────────────────────────────────────────────────────


def init(cwd: Path, env: Mapping[str, str]) -> Path:
    """Write a commented nightcrew.toml from what the repository shows, trusted since we wrote it; an existing one is kept."""
    repo = open_repo(cwd, env)
    if repo.work_tree is None:
        raise UserError("a bare repository has no place for settings", "use the machine's file")
    path = repo.work_tree / REPOSITORY_FILE
    if path.exists():
        raise UserError(f"{path} exists already", "edit it; nightcrew doctor checks it")
    path.write_text(init_text(guess(repo.work_tree), tuple(catalog.found(env.get("PATH", "")))))
    trust_here(cwd, env)
    return path


def trust_here(cwd: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Trust what this repository's file would execute; those lines."""
    repo = open_repo(cwd, env)
    config = control.load_config(repo, env, {})
    if config.digest:
        home_of(env).mkdir(mode=0o700, parents=True, exist_ok=True)
        trust(home_of(env), repo_id(repo), config.digest)
    return config.executes


def executes(cwd: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """What this repository's file would execute, trusted or not."""
    return control.load_config(open_repo(cwd, env), env, {}).executes


def files(cwd: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where settings are read from here, the machine's file first."""
    repo = _repo_or_none(cwd, env)
    top = (repo.work_tree / REPOSITORY_FILE,) if repo and repo.work_tree else ()
    return (machine_file(config_home(env)), *top)


# ── clearing away ─────────────────────────────────────────────────────────────────────────────────────────────────


class Cleaned(NamedTuple):
    """What `clean` did for one run: what went, and what stays with the reason."""

    run: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]


def clean(cwd: Path, env: Mapping[str, str], run: str = "") -> list[Cleaned]:
    """Remove what runs of this repository left that is proven landed or rescued; list the rest. A run that is not over is left alone."""
    journal = wiring.open_journal(env)
    repo = open_repo(cwd, env)
    pool = Pool(home_of(env) / "worktrees" / repo_id(repo), repo)
    chosen = [journal.find(run)] if run else [row.run for row in journal.recent_of(repo_id(repo), 10_000)]
    return [_clean_one(repo, pool, name, env) for name in chosen]


def _clean_one(repo: Repo, pool: Pool, run: RunId, env: Mapping[str, str]) -> Cleaned:
    state = control.view(run, env)
    if not state.done:
        return Cleaned(run, (), (f"the run is not over ({state.phase}): nightcrew resume, or cancel",))
    removed, kept = [], []
    for ws in workspace.leased(pool, run):
        saved = workspace.release(pool, ws)
        removed.append(f"workspace {ws.slot}")
        kept += [f"{saved.ref}: {saved.files} unsaved files"] if saved and saved.ref else []
    kept += landing.drop_run(repo, run)
    branch = state.landing.branch if state.landing and state.landing.mode == "branch" else ""
    if branch and state.phase is PipelinePhase.Complete:
        gone = landing.landed(repo, target(repo, state.started.target, state.started.remote or "none"), state.commit)
        if gone and git(repo, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", ok=(0, 1)) == state.commit:
            git(repo, "update-ref", "-d", f"refs/heads/{branch}", state.commit)
            removed.append(f"branch {branch}")
        elif not gone:
            kept.append(f"branch {branch}: not landed on {state.started.target}")
    return Cleaned(run, tuple(removed), tuple(kept))
