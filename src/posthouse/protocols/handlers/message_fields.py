"""Single fields of messages, read without making JSON of the whole message.

A search compares one field or two of very many messages. Of a message that does not match, only
these are read: from its row where that has them, else from its headers. Any other field comes from
the JSON of the message, which is made when such a field is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, Row
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.filters import BODY_TEXT, FIELDS, Filter
from posthouse.model.guids import format_guid
from posthouse.model.message import ack_words, class_name
from posthouse.model.message_json import MessageJson, time_text
from posthouse.protocols.handlers.message_json import clean, delivery_name, limited
from posthouse.wire.packet.packet import Packet

_time = lru_cache(4096)(time_text)  # neighbours mostly have the same
_class = lru_cache(256)(class_name)
_guid = lru_cache(256)(format_guid)
ROW_FIELDS: Final[dict[str, Callable[[Row | Read], object]]] = {
    "lookup_id": lambda row: row.lookup_id,
    "priority": lambda row: row.priority,
    "class_": lambda row: _class(row.message_class),
    "class_code": lambda row: row.message_class,
    "delivery": lambda row: delivery_name(row.flags),
    "arrived_time": lambda row: _time(row.arrived),
    "authenticated": lambda row: bool(row.flags & FLAG_AUTHENTICATED),
    "abort_count": lambda row: row.aborts,
    "move_count": lambda row: row.moves,
}
"""What the queue manager has of a message without its packet."""
_NAMES: Final = frozenset("class" if name == "class_" else name for name in ROW_FIELDS)
_HEADER_FIELDS: Final[dict[str, Callable[[Packet], object]]] = {
    "id": lambda packet: str(packet.identifier),
    "label": lambda packet: clean(packet.label),
    "sent_time": lambda packet: _time(packet.summary.sent_time),
    "source_queue_manager": lambda packet: _guid(packet.summary.source_guid),
    "time_to_be_received": lambda packet: limited(packet.summary.time_to_be_received),
    "acknowledge": lambda packet: ack_words(packet.summary.ack_flags),
    "correlation_id": lambda packet: packet.correlation_identifier.pack().hex(),
    "app_specific": lambda packet: _properties(packet).application_tag,
    "body_type": lambda packet: _properties(packet).body_type,
}
"""What the headers have in front of label and body."""


def _properties(packet: Packet) -> Any:
    header = packet.properties
    if header is None:
        raise RemoteProtocolError("the message has no MessagePropertiesHeader")
    return header


class RowFields:
    """What a filter can compare of a message by its row alone."""

    __slots__ = ("_row",)

    def __init__(self, row: Row) -> None:
        self._row = row

    def __getattr__(self, name: str) -> object:
        return ROW_FIELDS[name](self._row)


class MessageFields:
    """A message for comparisons: as its JSON, of which no more is made than is asked for."""

    __slots__ = ("_json", "_packet", "_read", "_view", "queue")

    def __init__(
        self, read: Read, packet: bytes, queue: str, json: Callable[[], MessageJson]
    ) -> None:
        self.queue = queue
        self._read = read
        self._packet = packet
        self._json = json
        self._view: Packet | MessageJson | None = None

    def __getattr__(self, name: str) -> object:
        of_row = ROW_FIELDS.get(name)
        if of_row is not None:
            return of_row(self._read)
        of_header = _HEADER_FIELDS.get(name)
        if of_header is not None and not isinstance(self._view, MessageJson):
            try:
                if self._view is None:
                    self._view = Packet(self._packet)
                return of_header(self._view)
            except RemoteProtocolError:
                pass  # broken headers: the JSON has what can be had of them
        if not isinstance(self._view, MessageJson):
            self._view = self._json()
        return getattr(self._view, name)


Holds = Callable[[Any], bool]  # of an object that has the fields of MessageJson
_WITHOUT_CONTENT: Final = frozenset(FIELDS) - {BODY_TEXT}


def row_condition(where: Filter | None) -> Callable[[Row], bool] | None:
    """What a filter wants of rows; None where rows alone rule out nothing."""
    wanted: Holds | None = None if where is None else where.within(_NAMES)
    if wanted is None:
        return None
    holds = wanted
    return lambda row: holds(RowFields(row))


def header_condition(where: Filter) -> Holds | None:
    """What a filter wants beside the content of messages; None where that rules out nothing."""
    return where.within(_WITHOUT_CONTENT) if where.reads_content else where.matches
