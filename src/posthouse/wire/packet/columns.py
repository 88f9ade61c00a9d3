"""Offsets of packet fields, for code that reads or writes many packets as columns.

A layout is what `numpy.dtype` takes, by `described`; this module itself needs no numpy. Offsets are
those of [MS-MQMQ] 2.2.19 and 2.2.20.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from posthouse.wire.packet.headers import MESSAGE_PROPERTIES_HEADER, SECURITY_HEADER
from posthouse.wire.packet.packet_fields import NAMES_AT


class Field(NamedTuple):
    """A field: its type as numpy writes it, and its offset."""

    form: str
    offset: int

    @property
    def bytes(self) -> slice:
        """Its bytes, in those of its header."""
        return slice(self.offset, self.offset + int(self.form[2:]))


class Layout:
    """The fields of a header, by name."""

    def __init__(self, size: int, **fields: tuple[str, int]) -> None:
        self.size = size
        self._fields = {name: Field(*each) for name, each in fields.items()}

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def described(self, *names: str) -> Any:
        """Some of the fields, or all, as `numpy.dtype` takes them."""
        chosen = names or tuple(self._fields)
        return {
            "names": list(chosen),
            "formats": [self._fields[name].form for name in chosen],
            "offsets": [self._fields[name].offset for name in chosen],
            "itemsize": self.size,
        }


FRONT: Final = Layout(
    NAMES_AT,
    base_flags=("<u2", 2),
    packet_size=("<u4", 8),
    time_to_reach_queue=("<u4", 12),
    source_guid=("|V16", 16),
    time_to_be_received=("<u4", 48),
    sent_time=("<u4", 52),
    ordinal=("<u4", 56),
    user_flags=("<u4", 60),
)
"""BaseHeader and the fixed part of UserHeader."""
PROPERTIES: Final = Layout(
    MESSAGE_PROPERTIES_HEADER.size,
    units=("|u1", 1),
    correlation=("|V20", 4),
    body_type=("<u4", 24),
    application_tag=("<u4", 28),
    body_size=("<u4", 32),
    allocated=("<u4", 36),
    extension_size=("<u4", 52),
)
"""MessagePropertiesHeader, 2.2.19.3."""
SECURITY: Final = Layout(
    SECURITY_HEADER.size,
    sender=("<u2", 2),
    key=("<u2", 4),
    signature=("<u2", 6),
    certificate=("<u4", 8),
    provider=("<u4", 12),
)
"""SecurityHeader, 2.2.20.1: the sizes in it."""
# What differs from message to message that was sent alike.
FRONT_FREE: Final = (slice(8, 16), slice(48, 60))
PROPERTIES_FREE: Final = (slice(1, 2), slice(4, 24), slice(28, 40), slice(52, 56))
