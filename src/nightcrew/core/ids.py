"""Names of things, and how they are minted: from what is known already, never from clock or chance."""

from hashlib import sha256
from typing import NewType, Self
from uuid import UUID, uuid5

from msgspec import Struct, structs

RunId = NewType("RunId", str)  # sortable, unique on a machine: `20260830-153012-a1b2`
AgentId = NewType("AgentId", str)
SeatKey = NewType("SeatKey", str)  # a named chair in a run: `impl-A`, `review-1`, `fix`, `dev-fix` …
EffectId = NewType("EffectId", str)  # `run/kind/node/seat/n`: derived, and never the same twice in a run (decision 0003)
Label = NewType("Label", str)  # what a candidate is called while nobody may know its author: `A`, `B` …
SlotId = NewType("SlotId", str)  # an opaque workspace of the pool; says nothing about agent, label or author
Commit = NewType("Commit", str)
Tree = NewType("Tree", str)

_NAMESPACE = UUID("6b0f3f0e-0d3c-5e58-9f0a-1c7b1a2f9d11")


class Data(Struct, frozen=True):
    """What a run is made of: frozen, and changed only by making it anew."""

    def but(self, **changes: object) -> Self:
        """The same with other values in those fields."""
        return structs.replace(self, **changes)


def short(run: RunId) -> str:
    """The last part of a run id, enough for a person to tell runs apart."""
    return run.rsplit("-", 1)[-1]


def session_id(seed: str, seat: SeatKey, generation: int, agent: AgentId) -> str:
    """The conversation id offered to a CLI that accepts one; the same inputs give the same UUID (decision 0004)."""
    return str(uuid5(_NAMESPACE, f"{seed}/{seat}/{generation}/{agent}"))


def impl_seat(label: Label) -> SeatKey:
    """The seat of the implementer with that label."""
    return SeatKey(f"impl-{label}")


def fraction(key: str) -> float:
    """A number in [0, 1) derived from `key`: jitter without chance."""
    return int.from_bytes(sha256(key.encode()).digest()[:6], "big") / 2**48
