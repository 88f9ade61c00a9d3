"""What a person writes, as a body that .NET reads: text and JSON, one formatter."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from posthouse.formats.encode.activex import variant_of
from posthouse.formats.encode.body import FORMATTERS, EncodedBody, encode_body
from posthouse.formats.encode.xml_text import TYPES
from posthouse.formats.limits import FormatError


def check_formatter(
    formatter: str, type: str, root: str, namespace: str, *, prefix: str = ""
) -> None:
    """Refuses a formatter with a type, class or namespace that it does not take.

    `prefix` stands in front of the names of options in a refusal.
    """
    if formatter not in FORMATTERS:
        raise FormatError(f"{formatter!r} is not a formatter: take one of {', '.join(FORMATTERS)}")
    if type and formatter not in ("xml", "activex"):
        raise FormatError(f"{prefix}type needs {prefix}formatter xml or activex")
    if root and (formatter != "xml" or type):
        raise FormatError(f"{prefix}root needs {prefix}formatter xml, and no {prefix}type")
    if namespace and not root:
        raise FormatError(f"{prefix}namespace needs {prefix}root")
    if formatter == "xml" and type and type not in TYPES:
        raise FormatError(f"{type!r} is not a type: take one of {', '.join(sorted(TYPES))}")
    if formatter == "activex":
        variant_of(type or "string")


def encode_text(
    content: bytes, formatter: str, type: str = "", root: str = "", namespace: str = ""
) -> EncodedBody:
    """The body that carries this content.

    With `xml` and a `root`, the content is JSON: `"@name"` is an attribute, a list repeats its
    element, null is nil. `raw` leaves it as it is.
    """
    check_formatter(formatter, type, root, namespace)
    if formatter == "raw":
        return EncodedBody(content, 0)
    value = _value(content, formatter, type, root)
    if formatter == "json":
        return EncodedBody(content, 0)  # it was checked; numbers keep their digits
    return encode_body(
        value, formatter, type=type or None, root=root or None, namespace=namespace or None
    )


def _value(content: bytes, formatter: str, type: str, root: str) -> Any:
    if root or formatter == "json":
        return _json(content)
    if type == "base64Binary":
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise FormatError("the body is not text in UTF-8") from None


def _json(content: bytes) -> Any:
    """The value; numbers with a point are texts, so that 12.50 keeps its places."""
    try:
        return json.loads(content.decode(), parse_float=str, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the body is not JSON: {error}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
