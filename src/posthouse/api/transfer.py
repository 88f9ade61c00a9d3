"""The types of the API for messages between queue managers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

U32_MAX = 0xFFFF_FFFF
U32 = Annotated[int, Meta(ge=0, le=U32_MAX)]


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all of them have in common: no field but those that are named."""


class ConnectionJson(Part):
    """An attempt to connect an outgoing queue."""

    time: str
    status: str
    status_code: U32
    error: U32
    next_hops: list[str]


class SequencePlaceJson(Part):
    r"""A place in a sequence: `sequence` is `time stamp\ordinal`."""

    sequence: str
    number: U32
    previous: U32


class OutgoingSequenceJson(Part):
    """How far the transactional messages of an outgoing queue have come (OutgoingTransferInfo)."""

    first_unacknowledged: SequencePlaceJson | None
    last_unacknowledged: SequencePlaceJson | None
    last_acknowledged: SequencePlaceJson | None
    next: SequencePlaceJson
    unacknowledged: int
    unread: int
    last_acknowledged_time: str | None
    acknowledgments: int
    resends: int
    resend_interval_s: int
    resend_time: str | None


class OutgoingJson(Part):
    """The sender's side of an outgoing queue.

    `sent` = `unsent` + `unacknowledged` + `delivered` + `failed`. Of those not acknowledged,
    `unread` have arrived, and only the word is missing what became of them there.
    """

    sent: int
    unsent: int
    unacknowledged: int
    unread: int
    delivered: int
    failed: int
    next_retry_time: str | None
    last_error: str
    next_hops: list[str]
    sequence: OutgoingSequenceJson | None


class IncomingSequenceJson(Part):
    """A sender's sequence into a transactional queue (IncomingTransactionalTransferInfo).

    Each address that sends in the name of a source has a sequence of its own.
    """

    source: str
    format_name: str
    sequence: str
    number: U32
    last_time: str | None
    rejected: int
    address: str = ""  # the host that it is of; with `vouched`, the one that it came from last
    vouched: bool = False  # the directory states that its machine, or a router, is there


class TurnedAwayJson(Part):
    """Messages of a sequence that are not accepted, since what they follow is not known here."""

    source: str
    address: str
    format_name: str
    place: SequencePlaceJson
    messages: int
    since: str | None
    last_time: str | None


class ConflictJson(Part):
    """Two addresses that have sent different messages at one place of a sequence."""

    source: str
    address: str
    other: str
    last_time: str | None


class SequencesJson(Part):
    """Every sequence of a queue: those that come in, with what is rejected; the one going out."""

    queue: str
    incoming: list[IncomingSequenceJson]
    turned_away: list[TurnedAwayJson]
    conflicts: list[ConflictJson]
    outgoing: OutgoingSequenceJson | None


class ResetParams(Part):
    """A queue, and which of its sequences to reset; of an outgoing queue there is one."""

    queue: Annotated[str, Meta(min_length=1)]
    source: str = ""
    address: str = ""
    dry_run: bool = False


class ResetJson(Part):
    """How many sequences begin again, and of an outgoing queue how many messages with them."""

    sequences: int
    messages: int
    dry_run: bool
