"""Bodies of messages from columns: bytes as they are, text, or a structure as JSON or XML.

Bytes and UTF-8 text cost nothing for each row. A structure is read column by column and written
row by row.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from typing import Any, Final, Literal, NamedTuple
from xml.sax.saxutils import escape

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_json import VT_BSTR, VT_LPWSTR, text_body
from posthouse.spark.rows.columns import Fault

BodyFormat = Literal["json", "xml"]
Value = Any
_Plain = Callable[[Value], Value]

_encode_json = msgspec.json.Encoder(decimal_format="number").encode
_WIDE: Final = frozenset({VT_BSTR, VT_LPWSTR})
_XML_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
# What XML 1.0 has no way to write, not even as a reference.
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Bodies(NamedTuple):
    """The bodies of a batch of rows, and the rows that have none."""

    array: Any  # binary
    faults: list[Fault]


def binary_bodies(array: Any) -> Bodies:
    """Bytes, or text as UTF-8."""
    return Bodies(array.cast(pa.binary()), _missing(array))


def text_bodies(array: Any, types: Any) -> Bodies:
    """Text in the encoding that its body type asks for: UTF-16 where Windows programs want it."""
    wide = pc.is_in(types, pa.array(sorted(_WIDE), types.type))
    if not pc.any(wide).as_py():
        return binary_bodies(array)
    rows = zip(array.to_pylist(), types.to_pylist(), strict=True)
    bodies = [None if text is None else text_body(text, kind or 0) for text, kind in rows]
    return Bodies(pa.array(bodies, pa.binary()), _missing(array))


def structured_bodies(array: Any, write: Callable[[Value], bytes]) -> Bodies:
    """A structure for each row, as the writer writes it."""
    faults = _missing(array)
    bodies: list[bytes | None] = []
    for row, value in enumerate(_values(array)):
        try:
            bodies.append(None if value is None else write(value))
        except ValueError as error:
            bodies.append(None)
            faults.append(Fault(row, "body", str(error)))
    return Bodies(pa.array(bodies, pa.binary()), faults)


def _missing(array: Any) -> list[Fault]:
    if not array.null_count:
        return []
    rows = pc.indices_nonzero(pc.is_null(array)).to_pylist()
    return [Fault(row, "body", "null is not a body") for row in rows]


def _values(array: Any) -> Iterator[Value]:
    """The rows of an array as Python values; a struct goes through Python column by column."""
    array = array.cast(_in_utc(array.type))
    if not pa.types.is_struct(array.type):
        yield from map(_plain_of(array.type), array.to_pylist())
        return
    names = [field.name for field in array.type]
    plains = [_plain_of(field.type) for field in array.type]
    columns = [
        list(map(plain, column.to_pylist()))
        for plain, column in zip(plains, array.flatten(), strict=True)
    ]
    valid = array.is_valid().to_pylist()
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    for there, values in zip(valid, rows, strict=True):
        yield dict(zip(names, values, strict=True)) if there else None


def _in_utc(arrow: Any) -> Any:
    """The type with all times in UTC, so that every session writes the same bytes."""
    types = pa.types
    if types.is_timestamp(arrow) and arrow.tz is not None:
        return pa.timestamp(arrow.unit, "UTC")
    if types.is_struct(arrow):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in arrow])
    if types.is_map(arrow):
        return pa.map_(arrow.key_field, arrow.item_field.with_type(_in_utc(arrow.item_type)))
    if types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_in_utc(arrow.value_type)))
    return arrow


def _same(value: Value) -> Value:
    return value


def _plain_of(arrow: Any) -> _Plain:
    """Makes maps dictionaries, at any depth; Arrow gives them as pairs."""
    types = pa.types
    if types.is_map(arrow):
        plain = _plain_of(arrow.item_type)
        return lambda pairs: None if pairs is None else {key: plain(item) for key, item in pairs}
    if types.is_list(arrow) and (plain := _plain_of(arrow.value_type)) is not _same:
        return lambda items: None if items is None else [plain(item) for item in items]
    if types.is_struct(arrow):
        return _plain_struct({field.name: _plain_of(field.type) for field in arrow})
    return _same


def _plain_struct(plains: dict[str, _Plain]) -> _Plain:
    if all(plain is _same for plain in plains.values()):
        return _same
    return lambda row: (
        None if row is None else {name: plains[name](value) for name, value in row.items()}
    )


# -- JSON


def json_writer(arrow: Any) -> Callable[[Value], bytes]:
    """Writes values of a type as JSON: moments in ISO 8601, bytes in base64, nulls as null."""
    _refuse_intervals(arrow)
    return _write_json


def _write_json(value: Value) -> bytes:
    try:
        return _encode_json(value)
    except (TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


def _refuse_intervals(arrow: Any) -> None:
    for inner in _inner_types(arrow):
        if pa.types.is_interval(inner) or pa.types.is_duration(inner):
            raise InvalidParameter(
                "the body has an interval in it, which neither JSON nor XML has",
                "Cast it to a number or a string.",
            )


def _inner_types(arrow: Any) -> Iterator[Any]:
    yield arrow
    if pa.types.is_nested(arrow):
        for index in range(arrow.num_fields):
            yield from _inner_types(arrow.field(index).type)


# -- XML


def xml_writer(arrow: Any, root: str) -> Callable[[Value], bytes]:
    """Writes values of a type as XML in UTF-8: an element for each field, nulls left out."""
    _refuse_intervals(arrow)
    _check_element(root)
    for inner in _inner_types(arrow):
        _check_for_xml(inner)

    def write(value: Value) -> bytes:
        parts: list[str] = []
        _element(parts, root, value if not isinstance(value, list) else {"item": value})
        return "".join(parts).encode()

    return write


def _check_for_xml(arrow: Any) -> None:
    types = pa.types
    if types.is_map(arrow) or (types.is_list(arrow) and types.is_list(arrow.value_type)):
        raise InvalidParameter(
            "the body has a map or an array of arrays in it, which have no plain form in XML",
            "Make it a struct, or send JSON: bodyFormat=json.",
        )
    if types.is_struct(arrow):
        for field in arrow:
            _check_element(field.name)


def _check_element(name: str) -> None:
    if _XML_NAME.fullmatch(name) is None:
        raise InvalidParameter(
            f"{name!a} cannot be the name of an XML element", "Give the field an alias."
        )


def _element(parts: list[str], name: str, value: Value) -> None:
    if value is None:
        return
    if isinstance(value, list):  # as often as there are items
        for item in value:
            _element(parts, name, item)
        return
    parts.append(f"<{name}>")
    if isinstance(value, dict):
        for key, item in value.items():
            _element(parts, key, item)
    else:
        parts.append(_xml_text(value))
    parts.append(f"</{name}>")


def _xml_text(value: Value) -> str:
    if isinstance(value, str):
        return escape(_checked(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _checked(text: str) -> str:
    found = _NO_XML.search(text)
    if found is not None:
        raise ValueError(f"XML has no way to write the character U+{ord(found[0]):04X}")
    return text
