"""Names and types of the options of a message, and what a forwarded message brings with it.

`posthouse.client.packets` asks once for each new set of options, not for each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import NoneType
from typing import Any, Final, TypedDict, cast

from posthouse.client.message import Delivery, Message
from posthouse.model.message import journal_bits
from posthouse.model.message_values import JOURNAL_NEGATIVE, JOURNAL_POSITIVE


class SendOptions(TypedDict, total=False):
    """The options of a message as keywords of `send`: they have the names of its fields.

    Lists are given as such, or as text with commas. Older names stay: `ack` for `acknowledge`,
    `correlation` for `correlation_id`, `recoverable=True` for `delivery="recoverable"`,
    `journal=True` for `journal="positive"` and `dead_letter=True` for `journal="negative"`.
    """

    label: str
    priority: int
    delivery: Delivery
    recoverable: bool
    app_specific: int
    extension: bytes
    journal: bool | str | Iterable[str]
    dead_letter: bool
    admin_queue: str
    acknowledge: str | Iterable[str]
    ack: str | Iterable[str]
    response_queue: str
    correlation_id: str | bytes
    correlation: str | bytes
    time_to_reach_queue: int | timedelta | None
    time_to_be_received: int | timedelta | None
    trace: str
    connector_type: str
    body_type: int | None
    sign: bool
    encrypt: bool
    traceparent: str
    tracestate: str


# The names that options have within the client, by those of the fields of a message.
_OLDER: Final = {
    "acknowledge": "ack",
    "correlation_id": "correlation",
    "delivery": "recoverable",
}
_RECOVERABLE: Final[dict[Delivery, bool]] = {
    "express": False,
    "recoverable": True,
    "transactional": True,
}
_LISTS: Final = ("ack", "journal")
_TEXT: Final = (str,), "text"
_FLAG: Final = (int,), "True or False"
_SECONDS: Final = (int, timedelta, NoneType), "whole seconds or a timedelta"
_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "label": _TEXT,
    "priority": ((int,), "a whole number from 0 to 7"),
    "recoverable": _FLAG,
    "app_specific": ((int,), "a whole number"),
    "extension": ((bytes,), "bytes"),
    "journal": _FLAG,
    "dead_letter": _FLAG,
    "admin_queue": _TEXT,
    "response_queue": _TEXT,
    "correlation": ((str, bytes), "20 bytes, 40 hex digits or the id of a message"),
    "time_to_reach_queue": _SECONDS,
    "time_to_be_received": _SECONDS,
    "trace": _TEXT,
    "connector_type": _TEXT,
    "body_type": ((int, NoneType), "a whole number"),
    "sign": _FLAG,
    "encrypt": _FLAG,
    "traceparent": _TEXT,
    "tracestate": _TEXT,
}


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by the names of `Options`; refuse one that is given under two names."""
    known = {**values}
    for name, older in _OLDER.items():
        if name in known:
            if older in known:
                raise TypeError(f"{name} and {older} are one option: give only one of them")
            known[older] = known.pop(name)
    if "delivery" in values:
        known["recoverable"] = _recoverable(values["delivery"])
    for name in _LISTS:
        if name in known:
            _set_list(known, name)
    return known


def _recoverable(delivery: object) -> bool:
    for word, recoverable in _RECOVERABLE.items():
        if word == delivery:
            return recoverable
    raise TypeError(f"delivery takes {', '.join(_RECOVERABLE)}, not {delivery!r}")


def _set_list(known: dict[str, Any], name: str) -> None:
    value = known[name]
    if name == "journal":
        if isinstance(value, int):
            return
        if "dead_letter" in known:
            raise TypeError(
                "journal with words and dead_letter are one option: give only one of them"
            )
        bits = journal_bits(_words(name, value))
        known["journal"] = bool(bits & JOURNAL_POSITIVE)
        known["dead_letter"] = bool(bits & JOURNAL_NEGATIVE)
    elif not isinstance(value, tuple):
        known[name] = _words("acknowledge", value)


def _words(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split(",")) if value else ()
    words = tuple(value) if isinstance(value, Iterable) else (value,)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{name} takes a list of words, not {value!r}")
    return words


def check_types(how: Any) -> None:
    """Raise a `TypeError` that names the option of these `Options` whose type is wrong."""
    for name, (kinds, words) in _TYPES.items():
        value = getattr(how, name)
        wrong = isinstance(value, bool) and words is not _FLAG[1]
        if wrong or not isinstance(value, kinds):
            raise TypeError(f"{name} takes {words}, not {value!r}")
    _words("acknowledge", how.ack)


def without_delivery(values: SendOptions) -> SendOptions:
    """Return the options of one message whose transaction has been seen to."""
    if values.get("delivery") == "transactional":
        return {**values, "delivery": "recoverable"}
    return values


def forwarded_options(message: Message, values: SendOptions) -> SendOptions:
    """Return the options with which a received message is sent again; `values` replace its own.

    They are those that its first sender gave: label, priority, delivery, correlation id,
    application number, extension with its trace context, response and administration queue,
    acknowledgments, journals, connector type, trace, body type and the time to be received, which
    begins again. Identifier, times, sender, signature, encryption, transaction, message class and
    counts are not carried over: what is sent is a new, normal message of the one who sends it.
    """
    journal = message.journal
    carried = {
        "label": message.label,
        "priority": message.priority,
        "recoverable": message.delivery != "express",
        "correlation": message.correlation_id,
        "app_specific": message.app_specific,
        "extension": message.extension,
        "response_queue": message.response_queue,
        "admin_queue": message.admin_queue,
        "ack": tuple(message.acknowledge),
        "journal": "positive" in journal,
        "dead_letter": "negative" in journal,
        "connector_type": message.connector_type,
        "trace": message.trace,
        "body_type": message.body_type,
        "time_to_be_received": message.time_to_be_received,
    }
    return cast(SendOptions, carried | named(values))
