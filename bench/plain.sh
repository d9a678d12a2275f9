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

# ── where the work goes: the repository, its settings, the person, the target; then as the run's driver opens it ──
cd "$repo"
git version >/dev/null
git rev-parse --path-format=absolute --git-common-dir --show-toplevel HEAD >/dev/null
theirs config --list -z >/dev/null
git for-each-ref --format='%(refname)%00%(HEAD)%00%(symref)' refs/heads refs/remotes >/dev/null
theirs var GIT_COMMITTER_IDENT >/dev/null
base=$(theirs rev-parse 'refs/heads/main^{commit}')
theirs update-ref $run/base "$base"
git version >/dev/null
git rev-parse --path-format=absolute --git-common-dir --show-toplevel HEAD >/dev/null
theirs config --list -z >/dev/null

# ── a private copy that borrows objects ──
theirs for-each-ref --count=1 --format='%(tree)' --points-at="$base" $run/ >/dev/null
mkdir -p "$ws/.git/objects/info" "$ws/.git/objects/pack" "$ws/.git/refs/heads" "$ws/.git/info"
echo "$repo/.git/objects" >"$ws/.git/objects/info/alternates"
printf '[core]\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = plain\n\temail = plain@localhost\n' >"$ws/.git/config"
echo "ref: refs/heads/work" >"$ws/.git/HEAD"
ours reset --hard -q "$base"

# ── what the gate says before, the agent's turn, its work ──
job "$gate" || true
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
job "$agent"
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
echo "work of A, turn 1" | ours commit -q --no-verify --cleanup=verbatim --all -F -
read -r head <"$ws/.git/refs/heads/work"
echo "$base $head" | ours diff-tree --stdin --always --format=%T -r -z -M --numstat --patch --full-index --no-color >/dev/null
theirs fetch -q --no-tags --no-write-fetch-head --refmap= --no-recurse-submodules --no-auto-gc "$ws/.git" "$head:$run/A"

# ── the tip, and the gate on top of it ──
theirs rev-parse 'refs/heads/main^{commit}' "$head^{tree}" >/dev/null
tree=$(theirs rev-parse 'refs/heads/main^{commit}' "$head^{tree}")
tree=${tree#*[!0-9a-f]}
job "$gate"
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null

# ── one commit, and its landing ──
final=$(echo "the task" | theirs commit-tree "$tree" -p "$base" -F -)
theirs update-ref $run/final "$final"
theirs for-each-ref --format='%(refname)%00%(objectname)%00%(worktreepath)' refs/heads/main >/dev/null
theirs merge-base --is-ancestor "$final" "$base" || true
theirs merge-base --is-ancestor "$base" "$final"
theirs update-ref -m "nightcrew: fast-forward" refs/heads/main "$final" "$base"

# ── nothing unsaved is left behind ──
ours status --porcelain=v2 --branch -z --no-renames --untracked-files=all >/dev/null
ours rev-list --parents --all --reflog --not "$base" --alternate-refs >/dev/null
theirs for-each-ref --format='%(refname) %(objectname) %(tree)' $run/ refs/heads/ refs/remotes/ >/dev/null
printf 'delete %s\n' $run/base $run/A $run/final | theirs update-ref --stdin
