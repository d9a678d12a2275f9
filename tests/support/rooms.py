"""The rooms that the engine's loop itself needs, opened for a run that touches no repository."""

import os
from pathlib import Path

from nightcrew.engine.jobs import mode_of
from nightcrew.engine.tools import Clock, Tools, Turnstile
from nightcrew.git.repo import open_repo
from nightcrew.git.workspace import Pool
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal
from nightcrew.ledger import Ledger
from support.world import RUN


def opened(home: Path, repo: Path, clock: Clock | None = None) -> Tools:
    """Journal, ledger and turnstile below `home`; git is opened and never asked."""
    journal, found = Journal(home), open_repo(repo, dict(os.environ))
    return Tools(
        home=home, journal=journal, blobs=Blobs(journal.folder(RUN) / "blobs"), ledger=Ledger(home), repo=found,
        pool=Pool(home / "slots", found), clock=clock or Clock(), mode=mode_of("off"), operator_env={}, secrets={}, max_turns=4,
        turnstile=Turnstile(home / "queue"), marker_folder=repo, headline=lambda state: state.phase,
    )  # fmt: skip
