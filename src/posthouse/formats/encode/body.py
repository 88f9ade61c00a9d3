"""One value, one formatter: the body to send and its type."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from posthouse.formats.encode.activex import activex_body
from posthouse.formats.encode.xml import xml_body
from posthouse.formats.encode.xml_text import whole_text
from posthouse.formats.limits import FormatError

FORMATTERS: Final = ("xml", "activex", "text", "json", "raw")


class EncodedBody(NamedTuple):
    """A body and its type, as `send` takes them."""

    body: bytes
    body_type: int


def encode_body(
    value: Any,
    formatter: str,
    *,
    type: str | None = None,
    root: str | None = None,
    namespace: str | None = None,
) -> EncodedBody:
    """The body of a value.

    `xml` and `activex` take a `type` for a value (default `string`), `xml` also a `root` for a
    class. `text` sends UTF-8, `json` any JSON value, `raw` bytes as they are.
    """
    if formatter == "xml":
        return EncodedBody(xml_body(value, type, root=root, namespace=namespace), 0)
    if formatter == "activex":
        return EncodedBody(*activex_body(value, type or "string"))
    if formatter == "json":
        return EncodedBody(_json(value), 0)
    if formatter == "text" and isinstance(value, str):
        return EncodedBody(whole_text(value).encode(), 0)
    if formatter == "raw" and isinstance(value, bytes):
        return EncodedBody(value, 0)
    if formatter in FORMATTERS:
        raise FormatError(f"{formatter} sends {'text' if formatter == 'text' else 'bytes'}")
    raise FormatError(f"{formatter!r} is not a formatter: take one of {', '.join(FORMATTERS)}")


def _json(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the value is not JSON: {error}") from None
