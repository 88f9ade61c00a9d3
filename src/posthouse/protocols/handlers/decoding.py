"""Decodes the messages of an answer outside the loop, within a limit for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from posthouse.formats.search import LISTED, content_of
from posthouse.model.message_json import MessageJson

DECODED_BYTES: Final = 8 << 20
"""JSON of decoded messages in one answer; the message with which it is reached is in it."""
_encode: Final = msgspec.json.Encoder().encode


class Decoding:
    """Adds `decoded` to the messages of one answer until there is enough."""

    def __init__(self, size_max: int = DECODED_BYTES) -> None:
        self._left = size_max

    @property
    def is_spent(self) -> bool:
        """Whether the answer is full."""
        return self._left <= 0

    def decoded(self, messages: Iterable[MessageJson | None]) -> Iterator[MessageJson | None]:
        """The messages, up to the one that fills the answer."""
        for message in messages:
            if message is not None:
                self.decode(message)
            yield message
            if self.is_spent:
                return

    def decode(self, message: MessageJson) -> None:
        """One message. Its content is kept as JSON, which takes less room than what it is of."""
        message.decoded = msgspec.Raw(_encode(content_of(message, LISTED)))
        self._left -= decoded_size([message])


def decoded_size(messages: Iterable[MessageJson | None]) -> int:
    """Bytes of JSON that decoding has added."""
    contents = (None if message is None else message.decoded for message in messages)
    return sum(len(memoryview(one)) for one in contents if isinstance(one, msgspec.Raw))
