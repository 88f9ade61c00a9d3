"""Bodies: Python values to bytes and a body type, and back (docs/python.md).

- `bytes` go as they are, without a type.
- `str` goes as VT_BSTR, UTF-16: what Windows programs write and read as a string. Another text type
  can be asked for: VT_LPWSTR is UTF-16 as well, VT_LPSTR and 0 are UTF-8.
- `dict` and `list` go as JSON in UTF-8, without a type.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message_json import VT_BSTR, body_text, text_body

Body = bytes | bytearray | memoryview | str | dict[str, Any] | list[Any]

BODY_TYPE_NONE: Final = 0
BODY_TYPE_TEXT: Final = VT_BSTR

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode


def encode_body(body: Body, body_type: int | None = None) -> tuple[bytes, int]:
    """The bytes of a body and its type."""
    if isinstance(body, bytes):
        return body, body_type or BODY_TYPE_NONE
    if isinstance(body, str):
        return _encode_text(body, BODY_TYPE_TEXT if body_type is None else body_type)
    if isinstance(body, dict | list):
        return _encode_structure(body), body_type or BODY_TYPE_NONE
    if isinstance(body, bytearray | memoryview):
        return bytes(body), body_type or BODY_TYPE_NONE
    raise TypeError(f"a body is bytes, str, dict or list, not {type(body).__name__}")


def _encode_text(text: str, body_type: int) -> tuple[bytes, int]:
    try:
        return text_body(text, body_type), body_type
    except UnicodeEncodeError as error:
        raise IllegalPropertyValue(f"the body is not text that can be sent: {error}") from None


def _encode_structure(body: dict[str, Any] | list[Any]) -> bytes:
    try:
        return _encode_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise IllegalPropertyValue(
            f"the body cannot be written as JSON: {error}",
            "Send only types that JSON has, or bytes.",
        ) from None


def decode_text(body: bytes, body_type: int) -> str:
    """The text of a body; ValueError where it is none."""
    text = body_text(body, body_type)
    if text is None and body_type == BODY_TYPE_NONE:
        return body.decode()
    if text is None:
        raise ValueError(f"a body of type {body_type} is not text, or not valid text")
    return text


def decode_json(body: bytes, body_type: int) -> Any:
    """The value of a JSON body; ValueError where it is not JSON."""
    try:
        if body_type != BODY_TYPE_NONE:
            return _decode_json(decode_text(body, body_type))
        return _decode_json(body.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise ValueError("the JSON of the body is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
