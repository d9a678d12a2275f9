#!/bin/sh
# What a solo run of nightcrew does to a repository, without nightcrew: the same git and shell calls in the same order.
# Usage: plain.sh REPO STATE AGENT GATE: the shell line AGENT changes a private copy below the folder STATE, the line GATE
# decides, and one commit lands on main. Left out is what is nightcrew's own: supervisors, sandbox, journal.
# `make bench` counts the calls of both and says when this page no longer tells what a run does.
set -eu

repo=$1 state=$2 agent=$3 gate=$4
ws=$state/workspace
run=refs/nightcrew/plain
export GIT_TERMINAL_PROMPT=0 GIT_PAGER=cat GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
# As durable as a run's own calls: "done" must not outlive its commit in a power cut.
export GIT_CONFIG_COUNT=4
export GIT_CONFIG_KEY_0=core.fsync GIT_CONFIG_VALUE_0=committed,reference
export GIT_CONFIG_KEY_1=core.fsyncMethod GIT_CONFIG_VALUE_1=batch
export GIT_CONFIG_KEY_2=core.hooksPath GIT_CONFIG_VALUE_2=/dev/null
export GIT_CONFIG_KEY_3=gc.auto GIT_CONFIG_VALUE_3=0

theirs() { git --git-dir="$repo/.git" "$@"; }
ours() { git --git-dir="$ws/.git" --work-tree="$ws" "$@"; }
job() { (cd "$ws" && sh -c "$1") >"$state/out" 2>"$state/err"; }

# ── where the work goes: the repository, its settings, the person, the target ──
cd "$repo"
git version >/dev/null
git rev-parse --path-format=absolute --git-common-dir --show-toplevel HEAD >/dev/null
theirs config --list -z >/dev/null
git for-each-ref --format='%(HEAD)%(refname)%00%(symref)' refs/heads refs/remotes >/dev/null
theirs var GIT_AUTHOR_IDENT >/dev/null
theirs var GIT_COMMITTER_IDENT >/dev/null
base=$(theirs rev-parse --verify -q 'refs/heads/main^{commit}')
theirs update-ref $run/base "$base"
git version >/dev/null
git rev-parse --path-format=absolute --git-common-dir --show-toplevel HEAD >/dev/null
theirs config --list -z >/dev/null

# ── a private copy that borrows objects ──
theirs update-ref "$run/pins/base" "$base"
mkdir -p "$ws/.git/objects/info" "$ws/.git/objects/pack" "$ws/.git/refs/heads" "$ws/.git/info"
echo "$repo/.git/objects" >"$ws/.git/objects/info/alternates"
printf '[core]\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = plain\n\temail = plain@localhost\n' >"$ws/.git/config"
echo "ref: refs/heads/work" >"$ws/.git/HEAD"
ours reset --hard -q "$base"
ours rev-parse "$base^{tree}" >/dev/null

# ── what the gate says before, the agent's turn, its work ──
job "$gate" || true
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
job "$agent"
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
ours add -A -- .
echo "work of A, turn 1" | ours commit -q --no-verify --cleanup=verbatim -F -
head=$(ours log --topo-order --left-right --boundary --format=%H "$base...HEAD")
head=${head%%[!0-9a-f]*}
ours diff-tree -r -z -M --numstat --patch --full-index --no-color "$base" "$head" >/dev/null
theirs fetch -q --no-tags --no-write-fetch-head --refmap= --no-recurse-submodules --no-auto-gc --update-shallow \
    "$ws/.git" "$head:$run/A"

# ── the tip, and the gate on top of it ──
theirs rev-parse --verify -q 'refs/heads/main^{commit}' >/dev/null
tree=$(ours rev-parse --verify "$head^{tree}")
theirs rev-parse --verify -q 'refs/heads/main^{commit}' >/dev/null
ours rev-parse --verify "$head^{tree}" >/dev/null
job "$gate"
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null

# ── one commit, and its landing ──
final=$(echo "the task" | theirs commit-tree "$tree" -p "$base" -F -)
theirs update-ref $run/final "$final"
theirs rev-parse --verify -q refs/heads/main >/dev/null
theirs merge-base --is-ancestor "$final" "$base" || true
theirs merge-base --is-ancestor "$base" "$final"
theirs worktree list --porcelain -z >/dev/null
theirs update-ref -m "nightcrew: fast-forward" refs/heads/main "$final" "$base"

# ── nothing unsaved is left behind ──
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
ours rev-list --parents --all --reflog --not "$base" --alternate-refs >/dev/null
theirs for-each-ref --format='%(refname) %(objectname) %(tree)' $run/ >"$state/refs"
theirs rev-list --not --exclude="$run/*" --all --not --stdin <"$state/err" >/dev/null
sed 's/^\([^ ]*\) \([^ ]*\) .*/delete \1 \2/' "$state/refs" | theirs update-ref --stdin
