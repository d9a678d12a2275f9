"""The runs that are killed at every point: each is a machine with a script, settings, and perhaps a person who answers. A new one is one entry."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from support import repos
from support.crew import LOCAL, USUAL, Crew, Turn, rejects

PUSH = {"mode": "push", "target": "main"}
SHORT = {"plan": False, "reviewers": 0}
OPEN = {"mode": "off"}  # where an agent plays somebody else who works in the person's own repository
GATE = "grep -q four note.txt"
NO_QUOTA = {"notice": "quota", "reason": "spent", "reset_in": 5 * 3600}
FIXED = {"say": '{"addressed": ["R1-1-1", "R1-2-1"], "rejected": {}}'}


class Scenario(NamedTuple):
    """A run: what makes its machine ready, what the person says to its questions, whether its clock jumps over every wait."""

    name: str
    ready: Callable[[Crew], None]
    answer: str = ""
    jumps: bool = False
    ends: str = "Complete"


def settled(crew: Crew, *turns: Turn, developers: str = "alpha", verify: dict[str, str] | None = None, **tables: Any) -> None:
    """A person on a branch of their own; every command, hook and turn stops at the turnstile when that is shut."""
    crew.git("switch", "-qc", "mine")
    crew.settle(
        *crew.agents(*developers.split()),
        roles=dict.fromkeys(("developer", "fixer"), developers.split()),
        **{"land": LOCAL, "pipeline": SHORT, "notify": {"command": [hold(crew)]}, **tables},
        verify=commands(crew, **verify or {"gate": GATE}),
    )
    held = [{"append": "{state}/held", "text": "turn\n"}, {"wait_for": "{state}/go"}]
    crew.script.write_text(json.dumps({"turn": [{**turn, "do": [*held, *turn["do"]]} for turn in (*turns, *USUAL)]}))


def hold(crew: Crew) -> str:
    """The program that says that it began and waits until it may go on."""
    return str(crew.folder / "bin/hold")


def commands(crew: Crew, **lines: str) -> dict[str, Any]:
    """The `verify` table with one line each, held at the turnstile."""
    return {name: [f"{hold(crew)} && {{ {line}; }}"] for name, line in lines.items()} | {"writable": [str(crew.played)]}


def hook(crew: Crew, name: str) -> None:
    """A hook of the repository that changes nothing."""
    repos.add_hook(crew.repo, name, hold(crew))


def others(crew: Crew, name: str, files: repos.Files, on: str = "main") -> Turn:
    """Somebody else's commit on `on`, ready to become the target: the step of an agent that has it appear there."""
    crew.git("switch", "-qc", name, on)
    repos.commit(crew.repo, files, name)
    crew.git("switch", "-q", "main")
    return {"run": f"git -C {crew.repo} update-ref refs/heads/main refs/heads/{name}"}


def solo(crew: Crew) -> None:
    """One agent, one gate, a hook, landing beside the person's checkout."""
    hook(crew, "pre-commit")
    settled(crew, {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"usage": {"tokens": 7, "usd": 0.5}}]})


def push(crew: Crew) -> None:
    """The same to a bare remote, through its hook."""
    repos.bare_remote(crew.repo, crew.folder / "remote.git")
    hook(crew, "pre-push")
    settled(crew, land=PUSH)


def remote(crew: Crew) -> None:
    """It is the remote that takes its time, and wants a licence: in the landing round the first fixer will not, the second writes it."""
    at = repos.bare_remote(crew.repo, crew.folder / "remote.git")
    looks = f"{hold(crew)}\nread -r _ new _\ngit cat-file -e $new:licence.txt || {{ echo no licence; exit 1; }}"
    repos.write(at, {"hooks/pre-receive": f"#!/bin/sh\n{looks}\n"})
    (at / "hooks/pre-receive").chmod(0o755)
    settled(
        crew,
        {"node": "land", "agent": "alpha", "do": [{"notice": "refused", "reason": "I will not"}]},
        {"node": "land", "do": [{"write": "licence.txt"}]},
        developers="alpha beta",
        land=PUSH,
    )


def rounds(crew: Crew) -> None:
    """Plan, two reviewers, a round of fixes and one of the gate, each handed over: alpha crashes in the first, beta's quota is spent in the second."""
    settled(
        crew,
        {"node": "review", "turn": 1, "do": [{"say": rejects("there is no fixed.txt")}]},
        {"node": "fix", "agent": "alpha", "do": [{"stderr": "boom\n"}, {"exit": 1}]},
        {"node": "fix", "do": [{"write": "fixed.txt"}, FIXED]},
        {"node": "gate-fix", "agent": "beta", "do": [NO_QUOTA]},
        {"node": "gate-fix", "do": [{"write": "cured.txt"}]},
        developers="alpha beta gamma",
        pipeline={"plan": True, "reviewers": 2},
        verify={
            "setup": "true", "check": "true", "e2e": "true", "pre_gate": "echo f > style.txt", "gate": "test -e cured.txt || { echo ill; exit 1; }",
        },
    )  # fmt: skip


def rebase(crew: Crew) -> None:
    """The target moves into a conflict: alpha's quota is spent, beta gives up, then resolves it; and it moves once more before the landing."""
    first = others(crew, "theirs", {"note.txt": "one\ndeux\nthree\n"})
    second = others(crew, "more", {"more.txt": "more\n"}, "theirs")
    resolved = "printf 'one\\nzwei deux\\nthree\\nfour\\n' > note.txt"
    settled(
        crew,
        {"node": "implement", "do": [first, {"replace": "note.txt", "old": "two", "new": "zwei"}]},
        {"node": "rebase", "agent": "alpha", "do": [NO_QUOTA]},
        {"node": "rebase", "do": [{"run": f"if mkdir {{state}}/gave-up; then git rebase --abort; else {resolved}; fi"}]},
        {"node": "commit", "do": [second, {"say": '{"subject": "Write the note", "body": "As asked."}'}]},
        developers="alpha beta",
        sandbox=OPEN,
        verify={"gate": "grep -q zwei note.txt"},
    )


def level_two(crew: Crew) -> None:
    """A gate that four repairs mend together: three at level 1, the fourth at level 2, after a pause and a reset."""
    cures: list[Turn] = [{"node": "dev-fix", "turn": n, "do": [{"write": f"cure{n}.txt"}]} for n in (1, 2, 3, 4)]
    gate = "for n in 1 2 3 4; do test -e cure$n.txt || { echo ill $n; exit 1; }; done"
    settled(crew, *cures, pipeline={**SHORT, "gate_fix_rounds": 0}, verify={"gate": gate})


def paused(crew: Crew) -> None:
    """A repair whose agent is told to come back later, and then succeeds at level 1."""
    busy = {"notice": "rate_limit", "retry_after": 600}
    settled(
        crew,
        {"node": "dev-fix", "turn": 1, "do": [busy]},
        {"node": "dev-fix", "do": [{"write": "cured.txt"}]},
        pipeline={**SHORT, "gate_fix_rounds": 0},
        verify={"gate": "test -e cured.txt"},
    )


def exhausted(crew: Crew) -> None:
    """Both agents of the chain are asked and their quota is spent: the run waits for the reset, and begins at the chain's front."""
    settled(crew, {"node": "implement", "turn": 1, "do": [NO_QUOTA]}, developers="alpha beta")


def question(crew: Crew) -> None:
    """A default limit is reached in the middle: a person is asked, and says that more may be spent."""
    settled(crew, {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"usage": {"usd": 30.0}}]})


def cancel(crew: Crew) -> None:
    """A person ends the run while an agent works: the work is rescued, the marker is written."""
    says = {"run": f"{crew.folder}/bin/cancel"}
    settled(crew, {"node": "implement", "do": [{"write": "half.txt"}, says, {"hang": "plain"}]}, sandbox=OPEN)


def competition(crew: Crew) -> None:
    """Three implement, a blind panel of three is split, deliberates and votes: one is handed over in its first ranking, one in its vote."""
    boom: list[Turn] = [{"stderr": "boom\n"}, {"exit": 1}]
    ranks = [{"order": list(order), "reasons": dict.fromkeys(order, "so"), "confidence": 0.7} for order in ("ABC", "BAC", "CAB")]
    vote = {"say": '{"choice": "B", "why": "it is the best"}'}
    settled(
        crew,
        {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"write": "by.txt", "text": "{label}\n"}]},
        {"node": "judge", "agent": "alpha", "do": boom},
        *({"node": "judge", "seat": f"judge-{n}", "do": [{"say": json.dumps(said)}]} for n, said in enumerate(ranks, 1)),
        {"node": "deliberate", "do": [vote]},
        {"node": "vote", "agent": "beta", "do": boom},
        {"node": "vote", "do": [vote]},
        developers="alpha beta gamma",
        pipeline={**SHORT, "implementers": 3},
    )


SCENARIOS = (
    Scenario("solo", solo),
    Scenario("push", push),
    Scenario("remote", remote),
    Scenario("rounds", rounds, jumps=True),
    Scenario("rebase", rebase),
    Scenario("level-two", level_two, jumps=True),
    Scenario("paused", paused, jumps=True),
    Scenario("exhausted", exhausted, jumps=True),
    Scenario("question", question, answer="more"),
    Scenario("cancel", cancel, ends="Interrupted"),
    Scenario("competition", competition),
)
