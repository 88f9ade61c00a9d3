"""Claims: which messages one may cover, and which stream may acknowledge it.

A claim is a range (after, through]. What lies between the group's position and `after` was not read
by the stream that claims: as long as messages are there, the claim is refused, or leaves them out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.ledger.order import QueueRange
from posthouse.engine.queues.queue import Group
from posthouse.model.errors import InvalidParameter, SharingViolation

STREAM_LENGTH_MAX: Final = 64


class ClaimRange(NamedTuple):
    """The range that a reader is about to read, up to and including `through`.

    `after` is None for readers that begin at the group's position. `stream` names the checkpoint
    that records the batch. With `skip`, messages below the range stay in the queue.
    """

    through: int
    after: int | None = None
    stream: str = ""
    skip: bool = False


def claimed_range(group: Group, asked: ClaimRange) -> tuple[int, int]:
    """Where the group's claim begins and ends with this range; refused where messages are unread.

    A claim of another stream is taken over by one that reads all of it again.
    """
    _check_asked(asked)
    definition, begin = group.definition, group.begin
    if not group.has_claims:
        begin = definition.position
    after = begin if asked.after is None else max(asked.after, definition.position)
    if not group.has_claims or after <= begin:
        if not asked.skip:
            _check_unread(group, definition.position, after)
        begin = after
    elif definition.stream != asked.stream:
        if _count(group, begin, min(after, definition.claimed)):
            raise foreign_claim(group, "claimed")
        _check_unread(group, definition.claimed, after)
        begin = after
    else:
        _check_unread(group, definition.claimed, after)
    return begin, max(definition.claimed, asked.through)


def _check_asked(asked: ClaimRange) -> None:
    if len(asked.stream) > STREAM_LENGTH_MAX:
        raise InvalidParameter(f"the name of a stream has at most {STREAM_LENGTH_MAX} characters")
    if asked.after is not None and asked.after > asked.through:
        raise InvalidParameter(
            f"a claim of ({asked.after}, {asked.through}] ends before it begins",
            "Name the lookup id before the first message and the one of the last.",
        )


def check_stream(group: Group, stream: str) -> None:
    """MQ_ERROR_SHARING_VIOLATION for the acknowledgment of what another stream has claimed."""
    if group.definition.stream != stream:
        raise foreign_claim(group, "acknowledged")


def foreign_claim(group: Group, verb: str) -> SharingViolation:
    """The refusal of a stream that comes between another one and its claim."""
    definition, queue = group.definition, group.queue.name
    return SharingViolation(
        f"messages of {queue} with lookup ids in ({group.begin}, {definition.claimed}] are not "
        f"{verb}: they are claimed for the group {group.name} by another stream "
        f"({definition.stream or 'unnamed'}; its last reader: {definition.owner or 'unknown'})",
        "Start that stream again with its checkpoint; or give what it claimed back to the queue: "
        f"{group.freeing}",
    )


def _check_unread(group: Group, after: int, through: int) -> None:
    unread = _count(group, after, through)
    if unread:
        queue, name = group.queue.name, group.name
        raise InvalidParameter(
            f"{unread} messages of {queue} with lookup ids in ({after}, {through}] are there, and "
            f"the group {name} has not acknowledged them: a stream that begins after {through} "
            "has not read them, and would receive them unread",
            "The checkpoint has read them without this group: it only looked before "
            "(consume=none), had another group name, or the home was restored. To go on with them "
            f"left in the queue: posthouse pipeline checkpoint rebase CHECKPOINT --group {name}. "
            "To read them, use a new checkpoint; failOnDataLoss=false leaves them in the queue, "
            f"as posthouse group set '{queue}' {name} --position {through} does.",
        )


def _count(group: Group, after: int, through: int) -> int:
    if through <= after:
        return 0
    return group.queue.state.order.count_of(QueueRange(after, through))
