"""Messages for a foreign system, and what a connector reports of each."""

from __future__ import annotations

from posthouse.client.message import Message
from posthouse.model.errors import InvalidParameter
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    MESSAGE_CLASSES,
)

_NEGATIVE = 0x8000
_WORDS = {one.word: one.code for one in MESSAGE_CLASSES if one.code & _NEGATIVE}


def refusal_class(word: str) -> int:
    """The class of a negative acknowledgment by its word, such as `nack-access-denied`."""
    code = _WORDS.get(word if word.startswith("nack-") else f"nack-{word}")
    if code is None:
        raise InvalidParameter(
            f"{word!r} is not a reason to refuse a message", f"{', '.join(_WORDS)}"
        )
    return code


class Refused(Exception):
    """The foreign system does not want a message, now or ever; `why` is a word for its sender.

    Words are those of the negative acknowledgments: `bad-dest-queue`, `access-denied`,
    `queue-exceed-quota`, `receive-rejected` and so on.
    """

    def __init__(self, why: str = "bad-dest-queue") -> None:
        super().__init__(why)
        self.message_class = refusal_class(why)


class Parcel:
    """A message on its way out. Nothing is said of it until one of the methods is called.

    What nothing was said of when the connector stops, or dies, comes again, to it or to another.
    """

    __slots__ = ("_said", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._said = 0

    def __repr__(self) -> str:
        return f"<Parcel {self.key}>"

    @property
    def destination(self) -> str:
        """The format name of the foreign queue."""
        return self.message.destination

    @property
    def key(self) -> str:
        """A key for the foreign system: two parcels with the same key are the same message.

        The copies of a message to several queues share its identifier, so the queue is part of it.
        """
        return f"{self.message.id}@{self.destination}"

    @property
    def said(self) -> int:
        """The class of what was said; 0 for nothing."""
        return self._said

    def delivered(self) -> None:
        """It is in its queue; whether anybody reads it there is not told."""
        self._said = ACK_REACH_QUEUE

    def received(self) -> None:
        """It was in its queue, and somebody has read it."""
        self._said = ACK_RECEIVE

    def refused(self, why: str = "bad-dest-queue") -> None:
        """It cannot be delivered; its sender learns why, if they want to."""
        self._said = refusal_class(why)
