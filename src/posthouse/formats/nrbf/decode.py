"""A BinaryFormatter body as a result: value, types, records, headers, tables, exception."""

from __future__ import annotations

from typing import Any, Final
from xml.etree.ElementTree import Element

from posthouse.formats.decoded import Decoded, ExceptionInfo, broken
from posthouse.formats.limits import Budget, FormatError, Limits
from posthouse.formats.nrbf.graph import GraphWriter
from posthouse.formats.nrbf.reader import NrbfReader
from posthouse.formats.nrbf.records import Array, Instance
from posthouse.formats.xml.names import decode_name
from posthouse.formats.xml.tree import local, namespace, parse_text
from posthouse.formats.xml.values import element_text

_NO_HEADERS: Final = (0, -1)
_DIFFGRAM: Final = "urn:schemas-microsoft-com:xml-diffgram-v1"
_EXCEPTION: Final = {"ClassName", "Message", "StackTraceString"}


def decode_nrbf(body: bytes, limits: Limits) -> Decoded:
    """The value of an NRBF stream, or the reason why it has none."""
    reader = NrbfReader(body, limits)
    try:
        reader.read()
        budget = Budget(limits)
        root = reader.objects[reader.root_id]
        value = GraphWriter(reader, limits, budget).value(root)
        headers = _headers(reader, limits, budget)
    except FormatError as error:
        return broken("nrbf", body, error, limits)
    details: dict[str, Any] = {
        "root_type": _root_type(root),
        "types": reader.type_names(),
        "records": reader.record_counts(),
    }
    if headers is not None:
        details["nrbf_headers"] = headers
    tables = _tables(value, limits)
    if tables is not None:
        details["tables"] = tables
    return Decoded("nrbf", value, body, details=details, exception=_exception(value), limits=limits)


def _root_type(root: Any) -> str:
    if isinstance(root, Instance):
        return root.info.name
    return "array" if isinstance(root, Array) else "System.String"


def _headers(reader: NrbfReader, limits: Limits, budget: Budget) -> dict[str, Any] | None:
    """Header objects of remoting, which MassTransit's binary serializer uses."""
    if reader.header_id in _NO_HEADERS:
        return None
    array = reader.objects.get(reader.header_id)
    if not isinstance(array, Array):
        raise FormatError(f"the NRBF header objects {reader.header_id} are not an array")
    found = GraphWriter(reader, limits, budget).value(array)
    headers = [header for header in found if isinstance(header, dict)] if found else []
    return {str(header.get("Name")): header.get("Value") for header in headers}


def _exception(value: Any) -> ExceptionInfo | None:
    if not isinstance(value, dict) or not value.keys() >= _EXCEPTION:
        return None
    return ExceptionInfo(
        _text(value["ClassName"]) or _text(value.get("$type")),
        _text(value["Message"]),
        _text(value["StackTraceString"]),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _tables(value: Any, limits: Limits) -> dict[str, list[dict[str, str]]] | None:
    """Rows of a DataTable or DataSet that was written as XML."""
    if not isinstance(value, dict) or not isinstance(value.get("XmlDiffGram"), str):
        return None
    try:
        root = parse_text(value["XmlDiffGram"], limits)
    except FormatError:
        return None
    tables: dict[str, list[dict[str, str]]] = {}
    for data in root:
        if namespace(data.tag) != _DIFFGRAM:
            for row in data:
                tables.setdefault(_name(row), []).append(
                    {_name(cell): element_text(cell) for cell in row}
                )
    return tables


def _name(element: Element) -> str:
    return decode_name(local(element.tag))
