"""Why a message became a dead letter, and what can be done about it.

Where a result code shows of the same, its advice is given (`posthouse.model.errors`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.model import message_classes as classes
from posthouse.model.errors import explain
from posthouse.model.message_classes import MESSAGE_CLASSES, class_name, is_negative


class Reason(NamedTuple):
    """One reason in words, with a remedy."""

    code: int
    word: str
    meaning: str
    remedy: str


_AGAIN = "Then send them again with --resend."
_CODES: Final = {
    classes.NACK_BAD_DEST_QUEUE: 0xC00E0003,
    classes.NACK_QUEUE_EXCEED_QUOTA: 0xC00E0027,
    classes.NACK_ACCESS_DENIED: 0xC00E0025,
    classes.NACK_BAD_SIGNATURE: 0xC00E0082,
    classes.NACK_BAD_ENCRYPTION: 0xC00E0030,
    classes.NACK_COULD_NOT_ENCRYPT: 0xC00E0033,
    classes.NACK_UNSUPPORTED_CRYPTO_PROVIDER: 0xC00E006B,
    classes.NACK_NOT_TRANSACTIONAL_QUEUE: 0xC00E0050,
}
_OWN: Final = {
    classes.NACK_PURGED: "A user removed them from the outgoing queue. Ask who did it, and why.",
    classes.NACK_REACH_QUEUE_TIMEOUT: (
        "See with `posthouse queue list --outgoing` whether the way is open, or let senders allow "
        f"a longer time to reach the queue. {_AGAIN}"
    ),
    classes.NACK_HOP_COUNT_EXCEEDED: (
        "Routing servers send them in a circle: look at the links of the sites on the way."
    ),
    classes.NACK_NOT_TRANSACTIONAL_QUEUE: (
        "Send them without a transaction, or make the queue again as a transactional one."
    ),
    classes.NACK_NOT_TRANSACTIONAL_MESSAGE: (
        "Send them in a transaction, or make the queue again as a plain one."
    ),
    classes.NACK_SOURCE_COMPUTER_GUID_CHANGED: (
        f"The sender was set up again; let the receiver forget what it knew of it. {_AGAIN}"
    ),
    classes.NACK_MESSAGE_TOO_LARGE: "Send bodies in parts, or by reference to where they are.",
    classes.NACK_QUEUE_DELETED: f"Create the queue again, or choose another. {_AGAIN}",
    classes.NACK_QUEUE_PURGED: f"The queue was purged. If that was a mistake: {_AGAIN[5:]}",
    classes.NACK_RECEIVE_TIMEOUT: (
        "See whether the receiving application runs and keeps up, or let senders allow a longer "
        f"time to be received. {_AGAIN}"
    ),
    classes.NACK_RECEIVE_TIMEOUT_AT_SENDER: (
        "They never left their sender in time: see whether the way to the destination is open. "
        f"{_AGAIN}"
    ),
    classes.NACK_RECEIVE_REJECTED: (
        "The receiving application refused them: compare what it expects with a body below, "
        f"and mend the one or the other. {_AGAIN}"
    ),
}
_MEANINGS: Final = {entry.code: entry.meaning for entry in MESSAGE_CLASSES}


def reason_of(code: int) -> Reason:
    """The reason that the class of a dead letter stands for."""
    meaning = _MEANINGS.get(code, "a class of the application's own")
    return Reason(code, class_name(code), meaning, _remedy(code))


def _remedy(code: int) -> str:
    if code in _OWN:
        return _OWN[code]
    if code in _CODES:
        return f"{explain(_CODES[code]).remedy} {_AGAIN}"
    if is_negative(code):
        return f"Ask the administrator of the destination. {_AGAIN}"
    return "No failure is known of them: look at one with `posthouse peek`."
