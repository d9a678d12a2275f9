"""The composition root: opens the rooms below and hands them to the engine as one record."""

from collections.abc import Mapping
from pathlib import Path

from nightcrew.app.home import hide, home_of, zone_of
from nightcrew.app.views import headline
from nightcrew.config.values import environments, secrets
from nightcrew.core.ids import RunId
from nightcrew.engine.jobs import mode_of
from nightcrew.engine.local import folded
from nightcrew.engine.tools import Clock, Tools, Turnstile
from nightcrew.errors import UserError
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.git.workspace import Pool
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal
from nightcrew.ledger import Ledger


def open_journal(env: Mapping[str, str]) -> Journal:
    """The journal of this machine, for those who only read or leave a word."""
    return Journal(home_of(env), hide(env))


def pool_of(checkout: Path, env: Mapping[str, str]) -> Pool:
    """The slots of the repository around `checkout`."""
    repo = open_repo(checkout, env)
    return Pool(home_of(env) / "worktrees" / repo_id(repo), repo)


def open_tools(run: RunId, env: Mapping[str, str], max_turns: int, clock: Clock | None = None) -> Tools:
    """Everything a driver of `run` needs. Raises UserError when the repository is gone, or another is found in its place."""
    home, told = home_of(env), folded(open_journal(env), run).started
    found = environments(told.roster, env, cwd=Path(env.get("HOME", "/")))
    redactor = hide(env, *secrets(told.roster, found))
    checkout = (journal := Journal(home, redactor)).place(f"checkout/{run}")
    pool = pool_of(checkout if checkout.is_dir() else journal.place(told.repo), env)
    if repo_id(pool.repo) != told.repo:
        raise UserError(f"the repository of run {run} is not at {checkout}", "put it back, then: nightcrew resume")
    queue = f"{told.repo}-{told.target.replace('/', '%2F')}.queue"
    return Tools(
        home=home, journal=journal, blobs=Blobs(journal.folder(run) / "blobs", redactor), ledger=Ledger(home, redactor), repo=pool.repo,
        pool=pool, clock=clock or Clock(), mode=mode_of(told.settings.shelter.mode), operator_env=dict(env),
        secrets={str(agent): values for agent, values in found.items()}, max_turns=max_turns,
        turnstile=Turnstile(home / "targets" / queue), marker_folder=pool.repo.work_tree or pool.repo.git_dir, headline=headline,
        zone=zone_of(env), redacted=redactor.text,
    )  # fmt: skip
