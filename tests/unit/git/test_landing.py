"""Landing: the one commit, moved forward only, never over somebody's work (laws 6, 7, 8; pipeline: landing)."""

import os
from pathlib import Path

import pytest

from nightcrew.errors import UserError
from nightcrew.git import landing, repo as repos, workspace
from nightcrew.git.collect import collect, has_change, sync
from nightcrew.git.repo import Repo, Target, tip
from nightcrew.git.sealed import GitError
from nightcrew.git.slots import Workspace
from nightcrew.git.workspace import Pool
from support.repos import (
    add_hook,
    bare_remote,
    commit,
    environment,
    forget,
    git,
    make_repo,
    move_remote,
    refs,
    shown,
    state,
    write,
)

RUN = "20260101-000000-a1b2"
BRANCH = "nightcrew/a1b2/A"
AT = 1_700_000_000.0
TARGET = Target("main", "origin")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with a remote."""
    made = make_repo(tmp_path / "source", {"note.txt": "one\n", "code.py": "print(1)\n"})
    bare_remote(made, tmp_path / "remote.git")
    return made


@pytest.fixture
def remote(source: Path) -> Path:
    """The remote."""
    return source.parent / "remote.git"


@pytest.fixture
def pool(source: Path, tmp_path: Path) -> Pool:
    """Its pool."""
    return Pool(tmp_path / "pool", repos.open_repo(source, environment()))


@pytest.fixture
def repo(pool: Pool) -> Repo:
    """The repository, opened."""
    return pool.repo


@pytest.fixture
def ws(source: Path, pool: Pool) -> Workspace:
    """A workspace with collected work."""
    made = workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)
    write(made.path, {"note.txt": "result\n"})
    collect(pool.repo, made, RUN, "A", made.head, "the work\n", AT)
    return made


def final(repo: Repo, ws: Workspace, at: float = AT) -> str:
    """The commit that lands."""
    tree = git(ws.path, "rev-parse", "HEAD^{tree}")
    return landing.squash(repo, ws, RUN, ws.head, tree, "Do the task\n\nBecause.", at)


# ── the commit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_commit_is_the_operators_with_exactly_the_tree(source: Path, repo: Repo, ws: Workspace) -> None:
    """One commit on the tip, the tested tree, the operator's name, our date; the same call gives the same commit, and gc cannot take it."""
    made = final(repo, ws)
    said = git(source, "log", "-1", "--format=%P %T %an <%ae> %at %ct|%B", made)
    tree = git(ws.path, "rev-parse", "HEAD^{tree}")
    assert said == f"{ws.head} {tree} Tester <tester@localhost> {int(AT)} {int(AT)}|Do the task\n\nBecause."
    assert final(repo, ws) == made
    assert refs(source)[f"refs/nightcrew/{RUN}/final"] == made


def test_a_tree_that_only_the_workspace_has_is_brought_over(source: Path, repo: Repo, ws: Workspace) -> None:
    """What a hook changed in the workspace can land though it was never collected."""
    write(ws.path, {"note.txt": "formatted\n"})
    git(ws.path, "add", "-A")
    made = landing.squash(repo, ws, RUN, ws.head, git(ws.path, "write-tree"), "m", AT)
    assert shown(source, made, "note.txt") == "formatted\n"


def test_a_commit_is_signed_when_the_operator_signs(source: Path, ws: Workspace, tmp_path: Path) -> None:
    """Signing follows the operator's configuration: a signature in the commit, or git's words when the program refuses."""
    signer = tmp_path / "signer"
    write(tmp_path, {"signer": '#!/bin/sh\ncat >/dev/null\necho "[GNUPG:] SIG_CREATED " >&2\necho SIGNED-BY-TEST\n'})
    signer.chmod(0o755)
    git(source, "config", "commit.gpgsign", "true")
    git(source, "config", "gpg.program", str(signer))
    made = final(repos.open_repo(source, environment()), ws)
    assert "SIGNED-BY-TEST" in git(source, "cat-file", "commit", made)
    write(tmp_path, {"signer": '#!/bin/sh\necho "no secret key" >&2\nexit 2\n'})
    with pytest.raises(GitError) as error:
        final(repos.open_repo(source, environment()), ws)
    assert "sign" in error.value.err


def test_without_an_identity_a_person_is_asked(source: Path, ws: Workspace, tmp_path: Path) -> None:
    """No name, no commit: one line with the commands."""
    write(tmp_path, {"none": "[user]\n useConfigOnly = true\n"})
    with pytest.raises(UserError, match="who you are"):
        final(repos.open_repo(source, {**environment(), "GIT_CONFIG_GLOBAL": str(tmp_path / "none")}), ws)


# ── mode branch ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_finished_branch_is_left(source: Path, repo: Repo, ws: Workspace) -> None:
    """Mode `branch` makes the branch and touches nothing else; repeated it is done; later work of the same run moves it."""
    before = state(source)
    made = final(repo, ws)
    for _ in range(2):
        assert landing.land_branch(repo, RUN, BRANCH, made) == ("landed", "")
    assert refs(source, "refs/heads")[f"refs/heads/{BRANCH}"] == made
    ours, *rest = state(source)
    assert (ours.pop(f"refs/heads/{BRANCH}"), (ours, *rest)) == (made, before)
    later = final(repo, ws, AT + 1)
    assert landing.land_branch(repo, RUN, BRANCH, later).state == "landed"
    assert refs(source, "refs/heads")[f"refs/heads/{BRANCH}"] == later


@pytest.mark.parametrize("case", ["not ours", "moved by a person", "checked out", "name taken"])
def test_a_branch_that_is_somebodys_is_left_alone(source: Path, repo: Repo, ws: Workspace, case: str) -> None:
    """A branch we did not make, that a person moved, stands on, or whose name cannot be, is not touched (T115)."""
    made, later = final(repo, ws), final(repo, ws, AT + 1)
    match case:
        case "not ours":
            git(source, "branch", BRANCH, "main")
        case "name taken":
            git(source, "branch", "nightcrew", "main")
        case _:
            landing.land_branch(repo, RUN, BRANCH, made)
            git(source, "checkout", "-q", BRANCH)
    if case == "moved by a person":
        commit(source, {"hand.txt": "by hand\n"})
    before = state(source)
    tried = landing.land_branch(repo, RUN, BRANCH, later)
    assert tried.state == ("dirty" if case == "checked out" else "rejected")
    assert tried.why
    assert state(source) == before


# ── mode local ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_target_nobody_stands_on_moves(source: Path, repo: Repo, ws: Workspace) -> None:
    """A dirty checkout on another branch is untouched while the target moves (the first story of the project)."""
    git(source, "checkout", "-q", "-b", "elsewhere")
    write(source, {"code.py": "dirty\n", "junk.txt": "junk\n"})
    made = final(repo, ws)
    _, *before = state(source)
    for _ in range(2):
        assert landing.land_local(repo, TARGET, ws.head, made) == ("landed", "")
    _, *after = state(source)
    assert after == before
    assert git(source, "rev-parse", "main") == made


def test_a_detached_checkout_is_untouched(source: Path, repo: Repo, ws: Workspace) -> None:
    """Standing detached on the target's commit is not standing on the target."""
    git(source, "checkout", "-q", "--detach")
    assert landing.land_local(repo, TARGET, ws.head, final(repo, ws)).state == "landed"
    assert (git(source, "rev-parse", "HEAD"), git(source, "status", "--porcelain")) == (ws.head, "")


def test_a_clean_checkout_of_the_target_moves_along(source: Path, repo: Repo, ws: Workspace) -> None:
    """Files follow their branch when nothing is unsaved; untracked files that are not in the way stay; no hook runs."""
    add_hook(source, "post-merge", "touch ran")
    add_hook(source, "post-checkout", "touch ran")
    write(source, {"junk.txt": "junk\n"})
    made = final(repo, ws)
    for _ in range(2):
        assert landing.land_local(repo, TARGET, ws.head, made) == ("landed", "")
    assert (source / "note.txt").read_text() == "result\n"
    assert git(source, "status", "--porcelain") == "?? junk.txt"
    assert git(source, "branch", "--show-current") == "main"


@pytest.mark.parametrize("how", ["changed", "staged", "other file", "untracked in the way", "linked worktree", "in a rebase"])
def test_a_dirty_checkout_of_the_target_stays(source: Path, repo: Repo, ws: Workspace, how: str) -> None:
    """With anything unsaved on the target nothing moves, and one line says why (rulings 22)."""
    write(ws.path, {"new.txt": "new\n"})
    collect(repo, ws, RUN, "A", ws.head, "more\n", AT)
    made, place = final(repo, ws), source
    match how:
        case "changed":
            write(source, {"note.txt": "mine\n"})
        case "staged":
            write(source, {"staged.txt": "mine\n"})
            git(source, "add", "staged.txt")
        case "other file":
            write(source, {"code.py": "mine\n"})
        case "untracked in the way":
            write(source, {"new.txt": "mine\n"})
        case "in a rebase":
            write(source, {".git/rebase-merge/head-name": "refs/heads/main\n"})
            git(source, "checkout", "-q", "--detach")
        case _:
            place = source.parent / "linked"
            git(source, "checkout", "-q", "-b", "elsewhere")
            git(source, "worktree", "add", "-q", str(place), "main")
            write(place, {"note.txt": "mine\n"})
    before = {str(p): p.read_bytes() for p in place.rglob("*") if p.is_file() and ".git" not in p.parts}
    tried = landing.land_local(repo, TARGET, ws.head, made)
    assert tried.state == "dirty"
    assert tried.why
    assert "\n" not in tried.why
    assert git(source, "rev-parse", "main") == ws.head
    assert {str(p): p.read_bytes() for p in place.rglob("*") if p.is_file() and ".git" not in p.parts} == before


def test_a_target_that_moved_is_told(source: Path, repo: Repo, ws: Workspace) -> None:
    """Law 7: what was tested on another tip does not land; the new tip is told."""
    made = final(repo, ws)
    moved = commit(source, {"other.txt": "other\n"})
    tried = landing.land_local(repo, TARGET, ws.head, made)
    assert tried.state == "moved"
    assert git(source, "rev-parse", "main") == moved


def test_landed_and_moved_on_is_landed(source: Path, repo: Repo, ws: Workspace) -> None:
    """Asked again after somebody committed on top, it is landed all the same."""
    made = final(repo, ws)
    landing.land_local(repo, TARGET, ws.head, made)
    commit(source, {"other.txt": "other\n"})
    assert landing.land_local(repo, TARGET, ws.head, made) == ("landed", "")


def test_a_local_branch_that_lags_behind_the_remote_moves_forward(source: Path, remote: Path, repo: Repo, ws: Workspace) -> None:
    """Work on the remote's tip lands on a local branch that has nothing else; what a person took back locally does not return by it."""
    made, base = final(repo, ws), ws.head
    git(source, "update-ref", "refs/nightcrew/fetched/origin/main", base)
    git(source, "checkout", "-q", "--detach")
    git(source, "update-ref", "refs/heads/main", git(source, "commit-tree", f"{base}^{{tree}}", "-m", "a beginning"))
    assert landing.land_local(repo, TARGET, base, made).state == "moved"
    git(source, "branch", "-q", "-D", "main")
    assert landing.land_local(repo, Target("main", None), base, made).state == "moved"
    assert landing.land_local(repo, TARGET, base, made) == ("landed", "")
    newer = move_remote(remote, {"other.txt": "other\n"})
    git(source, "fetch", "-q")
    on_top = git(repo.git_dir, "commit-tree", f"{newer}^{{tree}}", "-p", newer, "-m", "more")
    git(source, "update-ref", "refs/heads/main", base)
    assert landing.land_local(repo, TARGET, newer, on_top) == ("landed", "")


def test_a_lock_on_the_target_moves_nothing(source: Path, repo: Repo, ws: Workspace) -> None:
    """While somebody holds the branch's lock neither branch nor files move: one line after a wait."""
    made, before = final(repo, ws), state(source)
    (source / ".git/refs/heads/main.lock").touch()
    tried = landing.land_local(repo, TARGET, ws.head, made)
    (source / ".git/refs/heads/main.lock").unlink()
    assert tried.state == "dirty"
    assert "main.lock" in tried.why
    assert "\n" not in tried.why
    assert state(source) == before


def test_a_file_in_the_way_is_named(source: Path, repo: Repo, ws: Workspace) -> None:
    """An untracked file that the landing would overwrite is told by its name, and stays."""
    write(ws.path, {"new.txt": "of the work\n"})
    collect(repo, ws, RUN, "A", ws.head, "more\n", AT)
    made = final(repo, ws)
    write(source, {"new.txt": "of the person\n"})
    tried = landing.land_local(repo, TARGET, ws.head, made)
    assert tried.state == "dirty"
    assert "new.txt" in tried.why
    assert (source / "new.txt").read_text() == "of the person\n"


# ── mode push ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_push_moves_the_remote_and_nothing_here(source: Path, remote: Path, repo: Repo, ws: Workspace) -> None:
    """Pushed once, pushed again, or found under somebody's later commit: landed; the local branch and checkout stay."""
    add_hook(source, "pre-push", "touch ran; exit 1")
    made = final(repo, ws)
    before = git(source, "rev-parse", "main"), git(source, "status", "--porcelain")
    for _ in range(2):
        assert landing.push(repo, TARGET, ws.head, made) == ("landed", "")
    assert git(remote, "rev-parse", "main") == made
    on_top = move_remote(remote, {"other.txt": "other\n"})
    assert landing.push(repo, TARGET, ws.head, made) == ("landed", "")
    assert git(remote, "rev-parse", "main") == on_top
    assert (git(source, "rev-parse", "main"), git(source, "status", "--porcelain")) == before


def test_a_push_that_lost_the_race_is_told(remote: Path, repo: Repo, ws: Workspace) -> None:
    """Somebody was faster: nothing is forced, the new tip comes back."""
    made = final(repo, ws)
    moved = move_remote(remote, {"other.txt": "other\n"})
    tried = landing.push(repo, TARGET, ws.head, made)
    assert tried.state == "moved"
    assert git(remote, "rev-parse", "main") == moved


def test_a_target_set_back_is_not_pushed_over(source: Path, remote: Path, repo: Repo, ws: Workspace) -> None:
    """A remote set back to an older commit would take a plain push; ours expects the tip that was tested."""
    tip = commit(source, {"second.txt": "2\n"})
    git(source, "push", "-q", "origin", "main")
    made = landing.squash(repo, ws, RUN, tip, git(ws.path, "rev-parse", "HEAD^{tree}"), "m", AT)
    git(remote, "update-ref", "refs/heads/main", ws.head)
    tried = landing.push(repo, TARGET, tip, made)
    assert tried.state == "moved"
    assert git(remote, "rev-parse", "main") == ws.head


def test_a_push_that_the_remotes_hook_refuses_is_told_with_its_words(remote: Path, repo: Repo, ws: Workspace) -> None:
    """A hook of the remote says no: its words, and nothing moved."""
    hook = remote / "hooks/pre-receive"
    write(remote, {"hooks/pre-receive": "#!/bin/sh\necho 'fatal: main is frozen' >&2\necho until Monday\nexit 1\n"})
    hook.chmod(0o755)
    tried = landing.push(repo, TARGET, ws.head, final(repo, ws))
    assert tried.state == "rejected"
    assert "main is frozen until Monday" in tried.why
    assert "\n" not in tried.why


def test_a_remote_that_is_gone_is_unreachable(remote: Path, repo: Repo, ws: Workspace) -> None:
    """No answer is not a refusal."""
    forget(remote)
    tried = landing.push(repo, TARGET, ws.head, final(repo, ws))
    assert tried.state == "unreachable"
    assert tried.why


# ── proof and leftovers ───────────────────────────────────────────────────────────────────────────────────────────


def test_landed_is_proven(remote: Path, repo: Repo, ws: Workspace) -> None:
    """An ancestor or the same patch by somebody else is landed; anything else is not."""
    made = final(repo, ws)
    assert not landed(repo, made)
    move_remote(remote, {"other.txt": "other\n"})
    assert not landed(repo, made)
    move_remote(remote, {"note.txt": "result\n"}, "cherry-picked by a person")
    move_remote(remote, {"note.txt": "result, and better\n"})
    assert landed(repo, made)


def landed(repo: Repo, made: str) -> bool:
    """Whether the target has that commit's work."""
    return has_change(repo, tip(repo, TARGET).commit, made, made)


def lost_work(source: Path, repo: Repo, pool: Pool, ws: Workspace) -> tuple[str, dict[str, str]]:
    """A losing candidate's head that no branch has, and the run's rescue refs."""
    write(ws.path, {"left.txt": "left\n"})
    assert workspace.release(pool, ws).ref
    other = workspace.lease(pool, RUN, "dev2", ws.head, "nightcrew/a1b2/B")
    write(other.path, {"note.txt": "the losing candidate\n"})
    loser = collect(repo, other, RUN, "B", other.head, "m\n", AT).head
    return loser, refs(source, "refs/nightcrew/rescue")


def test_without_proof_what_is_nowhere_else_stays(source: Path, repo: Repo, pool: Pool, ws: Workspace) -> None:
    """What is reachable from a branch, or is in a commit that is, goes; what is nowhere else stays and is listed; rescued work stays."""
    made = final(repo, ws)
    loser, saved = lost_work(source, repo, pool, ws)
    landing.land_local(repo, TARGET, ws.head, made)
    for _ in range(2):
        assert landing.drop_run(repo, RUN) == (f"refs/nightcrew/{RUN}/B",)
    assert refs(source, "refs/nightcrew") == {f"refs/nightcrew/{RUN}/B": loser, **saved}


@pytest.mark.parametrize("where", ["local", "local and more on it", "branch", "push"])
def test_a_run_that_is_proven_landed_leaves_only_rescue_refs(
    source: Path, repo: Repo, pool: Pool, ws: Workspace, where: str
) -> None:
    """Where a branch has the commit that landed, every ref of the run goes, a losing candidate's too; rescued work stays."""
    made = final(repo, ws)
    _, saved = lost_work(source, repo, pool, ws)
    match where:
        case "branch":
            landing.land_branch(repo, RUN, BRANCH, made)
        case "push":
            git(source, "config", "--unset", "remote.origin.fetch")
            landing.push(repo, TARGET, ws.head, made)
            repos.tip(repo, TARGET)
        case _:
            landing.land_local(repo, TARGET, ws.head, made)
    if where == "local and more on it":
        commit(source, {"more.txt": "more\n"})
    for _ in range(2):
        assert landing.drop_run(repo, RUN, made) == ()
    assert saved
    assert {name for name in refs(source, "refs/nightcrew") if "/fetched/" not in name} == set(saved)


def test_a_loser_stays_until_it_is_not_asked_for(source: Path, repo: Repo, pool: Pool, ws: Workspace) -> None:
    """The work of who lost to what landed keeps its ref while it is named, and goes when it is not."""
    made = final(repo, ws)
    loser, saved = lost_work(source, repo, pool, ws)
    landing.land_local(repo, TARGET, ws.head, made)
    for _ in range(2):
        assert landing.drop_run(repo, RUN, made, ("B", "C")) == (f"refs/nightcrew/{RUN}/B",)
    assert refs(source, "refs/nightcrew") == {f"refs/nightcrew/{RUN}/B": loser, **saved}
    assert landing.drop_run(repo, RUN, made) == ()


@pytest.mark.parametrize("claim", ["not there", "unknown"])
def test_a_claim_is_no_proof(source: Path, repo: Repo, pool: Pool, ws: Workspace, claim: str) -> None:
    """A commit that no branch has, whatever was said of it, proves nothing: all that is nowhere else stays."""
    made = final(repo, ws)
    loser, _ = lost_work(source, repo, pool, ws)
    assert landing.drop_run(repo, RUN, made if claim == "not there" else "1" * 40) == (f"refs/nightcrew/{RUN}/B",)
    assert git(source, "for-each-ref", "--contains", loser)


# ── hooks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hooks_are_found_and_never_run_by_us(source: Path, ws: Workspace) -> None:
    """The active hooks are told in git's order; samples and files that cannot be executed are none; no verb of ours runs one."""
    add_hook(source, "commit-msg", "exit 1")
    add_hook(source, "pre-commit", "exit 1")
    add_hook(source, "pre-push", "exit 1").chmod(0o644)
    repo = repos.open_repo(source, environment())
    folder = source / ".git/hooks"
    assert list(landing.hooks(repo, ws.head).items()) == [
        ("pre-commit", folder / "pre-commit"),
        ("commit-msg", folder / "commit-msg"),
    ]
    made = final(repo, ws)
    assert landing.land_local(repo, TARGET, ws.head, made).state == "landed"


@pytest.mark.parametrize("path", [".husky/", "{source}/.husky"])
def test_hooks_in_the_tree_are_those_of_the_base(source: Path, path: str) -> None:
    """With `core.hooksPath` inside the tree the base commit says which hooks there are, not a dirty checkout (rulings 18)."""
    write(source, {".husky/pre-commit": "#!/bin/sh\n", ".husky/commit-msg": "no\n"})
    (source / ".husky/pre-commit").chmod(0o755)
    base = commit(source, {})
    write(source, {".husky/pre-push": "#!/bin/sh\n"})
    (source / ".husky/pre-push").chmod(0o755)
    git(source, "config", "core.hooksPath", path.format(source=source))
    repo = repos.open_repo(source, environment())
    assert landing.hooks(repo, base) == {"pre-commit": Path(".husky/pre-commit")}


def test_a_hook_sees_the_commit_about_to_be_made(source: Path, repo: Repo, ws: Workspace) -> None:
    """Staged on the tip with exactly the tree; what a hook changes is a new tree and is collected on our branch; a repeat is the same."""
    head, tree = git(ws.path, "rev-parse", "HEAD"), git(ws.path, "rev-parse", "HEAD^{tree}")
    for _ in range(2):
        landing.stage_for_hooks(repo, ws, ws.head, tree)
        assert git(ws.path, "rev-parse", "HEAD") == ws.head
        assert git(ws.path, "status", "--porcelain") == "M  note.txt"
    assert landing.after_hooks(ws) == tree
    assert git(ws.path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert git(ws.path, "rev-parse", "HEAD") == head
    landing.stage_for_hooks(repo, ws, ws.head, tree)
    write(ws.path, {"note.txt": "formatted\n", "untracked.txt": "left\n"})
    changed = landing.after_hooks(ws)
    assert changed != tree
    (ws.path / "untracked.txt").unlink()
    found = collect(repo, ws, RUN, "A", ws.head, "hooks\n", AT)
    assert found.tree == changed
    assert shown(source, found.head, "note.txt") == "formatted\n"


def test_staging_overwrites_nothing_unsaved(repo: Repo, ws: Workspace) -> None:
    """Files that are not committed are not given up for a hook."""
    tree = git(ws.path, "rev-parse", f"{ws.head}^{{tree}}")
    write(ws.path, {"note.txt": "unsaved\n"})
    with pytest.raises(GitError):
        landing.stage_for_hooks(repo, ws, ws.head, tree)
    assert (ws.path / "note.txt").read_text() == "unsaved\n"


def test_few_processes_for_a_whole_run(tmp_path: Path) -> None:
    """A solo run in mode `branch` makes at most twenty git calls of ours (figures, section 6)."""
    source = make_repo(tmp_path / "source")
    real = git(source, "--exec-path")
    count, shim = tmp_path / "count", tmp_path / "bin/git"
    write(tmp_path, {"bin/git": f'#!/bin/sh\necho "$*" >> "{count}"\nexec "{real}/git" "$@"\n'})
    shim.chmod(0o755)
    env = {**environment(), "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    pool = Pool(tmp_path / "pool", repos.open_repo(source, env))
    repo, target = pool.repo, repos.target(pool.repo)
    base = repos.tip(repo, target).commit
    ws = workspace.lease(pool, RUN, "dev", base, BRANCH)
    write(ws.path, {"note.txt": "result\n"})
    found = collect(repo, ws, RUN, "A", base, "m\n", AT)
    assert sync(repo, ws, RUN, base, found.head, target, AT).state == "same"
    made = landing.squash(repo, ws, RUN, base, found.tree, "m", AT)
    assert landing.land_branch(repo, RUN, BRANCH, made).state == "landed"
    workspace.release(pool, ws)
    assert landing.drop_run(repo, RUN, made) == ()
    calls = count.read_text().splitlines()
    said = [" ".join(word for word in call.split() if not word.startswith("--")) for call in calls]
    assert 0 < len(calls) <= 20, "\n".join(said)
