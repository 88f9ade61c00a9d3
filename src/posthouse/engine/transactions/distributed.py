"""Values of transactions with participants elsewhere, and how a decision is kept.

Presumed abort: only a decision to commit is kept, until every participant has
confirmed it. Whatever is asked about and not found was aborted.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import msgspec


class Branch(NamedTuple):
    """The part of a transaction in a database that the client has joined to it."""

    name: str  # the branch qualifier of its xid
    resource: str = ""  # which database, where that can be told


class JointState(Enum):
    """Where a joint transaction is."""

    OPEN = "open"  # participants may still come
    PREPARING = "preparing"
    COMMITTED = "committed"  # decided: to be told until everybody has confirmed


Within = Callable[[Callable[[], None]], object]
"""Runs the step that decides, together with what has to be kept in the same step."""


def at_once(step: Callable[[], None]) -> None:
    """Nothing else belongs to the step."""
    step()


class Joint:
    """A transaction of this queue manager with participants elsewhere."""

    __slots__ = (
        "account",
        "branches",
        "decided_at",
        "identifier",
        "members",
        "state",
        "voted",
        "waiter",
        "why",
        "within",
    )

    def __init__(self, identifier: bytes) -> None:
        self.identifier = identifier
        self.state = JointState.OPEN
        self.members: set[bytes] = set()  # peers; of a decided one those that have not confirmed
        self.voted: set[bytes] = set()
        self.branches: dict[str, str] = {}  # databases by branch, likewise
        self.account = b""  # the SID of the user that committed it
        self.decided_at = 0
        self.waiter: object = None  # who asked for the commit
        self.within: Within = at_once
        self.why = ""  # it is aborted

    @property
    def settled(self) -> bool:
        """Everybody has confirmed."""
        return not self.members and not self.branches

    @property
    def participants(self) -> list[str]:
        """Everybody who is still to confirm, for people to read."""
        databases = [
            f"database {branch} {resource}".rstrip() for branch, resource in self.branches.items()
        ]
        return sorted(f"peer {member.hex()}" for member in self.members) + sorted(databases)


class StoredDecision(msgspec.Struct, array_like=True):
    """A decision to commit, as it is kept."""

    account: bytes
    decided_at: int
    members: list[bytes]
    branches: list[tuple[str, str]]


class StoredHeuristic(msgspec.Struct, array_like=True):
    """What an operator decided in a coordinator's place, kept until that was heard."""

    coordinator: bytes
    committed: bool
    ended_at: int


_encode = msgspec.msgpack.Encoder().encode
_decode_decision = msgspec.msgpack.Decoder(StoredDecision).decode
_decode_heuristic = msgspec.msgpack.Decoder(StoredHeuristic).decode


def pack_decision(joint: Joint) -> bytes:
    """A decision as a definition of the log."""
    return _encode(
        StoredDecision(
            joint.account,
            joint.decided_at,
            sorted(joint.members),
            sorted(joint.branches.items()),
        )
    )


def unpack_decision(identifier: bytes, value: bytes) -> Joint:
    """A decision read back."""
    stored, joint = _decode_decision(value), Joint(identifier)
    joint.state = JointState.COMMITTED
    joint.account, joint.decided_at = stored.account, stored.decided_at
    joint.members, joint.branches = set(stored.members), dict(stored.branches)
    return joint


def pack_heuristic(heuristic: StoredHeuristic) -> bytes:
    """An operator's decision as a definition of the log."""
    return _encode(heuristic)


def unpack_heuristic(value: bytes) -> StoredHeuristic:
    """An operator's decision read back."""
    return _decode_heuristic(value)
