"""Large inputs that aim at time or memory of one decoder; each claims to be what it is not."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

MB = 1 << 20


def part(size: int, count: int) -> int:
    """The share of a count for an input of 10 MB."""
    return count * size // (10 * MB)


class Hostile(NamedTuple):
    """One of them; it is made when it is wanted, since all together are large."""

    name: str
    made: Callable[[int], tuple[bytes, dict[str, Any]]]
    """For a size: the arguments of `decode`."""


def i32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def variable(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def text(value: bytes) -> bytes:
    return variable(len(value)) + value


def nrbf(*records: bytes) -> bytes:
    return b"\0" + i32(1, -1, 1, 0) + b"".join(records) + b"\x0b"


def filled(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def gram(encoding: int, payload: bytes, mode: int = 4) -> bytes:
    start = bytes((0, 1, 0, 1, mode, 2)) + text(b"net.msmq://a/b") + bytes((3, encoding))
    return start + payload


def inputs() -> Iterator[Hostile]:
    """Every input."""
    kinds: list[tuple[str, dict[str, Make], dict[str, Any]]] = [
        ("xml", _XML, {}),
        ("json", _JSON, {}),
        ("nrbf", _NRBF, {"body_type": 768}),
        ("wcf", _WCF, {"body_type": 0x1011}),
    ]
    for kind, makes, more in kinds:
        for name, make in makes.items():
            yield Hostile(f"{kind}-{name}", partial(_body_and, make, more))
    for name, both in _OTHER.items():
        yield Hostile(name, both)


def _body_and(make: Make, more: dict[str, Any], size: int) -> tuple[bytes, dict[str, Any]]:
    return make(size), more


def string_in_string(size: int) -> bytes:
    inner = "<string>" + "x" * (size // 2)
    for _ in range(12):
        inner = inner.replace("&", "&amp;").replace("<", "&lt;")
        inner = f"<string>{inner}</string>"
    return inner.encode()


Make = Callable[[int], bytes]

_XML: dict[str, Make] = {
    "elements": lambda size: b"<a>" + filled(b"<b/>", size) + b"</a>",
    "elements-below-the-limit": lambda size: b"<a>" + b"<b><c/></b>" * part(size, 59_000) + b"</a>",
    "deep": lambda size: filled(b"<a>", size),
    "deep-and-closed": lambda size: b"<a>" * part(size, 100_000) + b"</a>" * part(size, 100_000),
    "attributes": lambda size: (
        b"<a " + b"".join(b'a%d="" ' % number for number in range(size // 10)) + b"/>"
    ),
    "many-with-attributes": lambda size: b"<r>" + filled(b'<a b="c" d="e"/>', size) + b"</r>",
    "names": lambda size: (
        b"<a>" + b"".join(b"<b%d/>" % number for number in range(size // 9)) + b"</a>"
    ),
    "namespaces": lambda size: (
        b"<a>"
        + b"".join(b'<p%d:b xmlns:p%d="u%d"/>' % (n, n, n) for n in range(part(size, 100_000)))
        + b"</a>"
    ),
    "laughs": lambda size: (
        b'<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>' + filled(b"&c;", size) + b"</a>"
    ),
    "comments": lambda size: filled(b"<!---->", size) + b"<a/>",
    "instructions": lambda size: filled(b"<?a?>", size) + b"<a/>",
    "open-comment": lambda size: b"<!--" + filled(b"-", size),
    "line-ends": lambda size: b"<a>" + filled(b"x\r\n", size) + b"</a>",
    "blanks-and-line-ends": lambda size: b"<a>" + filled(b"\r\n", size) + b"</a>",
    "angles": lambda size: b"<a>\r" + filled(b">", size) + b"</a>",
    "references": lambda size: b"<a>" + filled(b"&#65;", size) + b"</a>",
    "long-text": lambda size: b"<string>" + filled(b"x", size) + b"</string>",
    "wide-text": lambda size: "<string>\U0001f600".encode() + filled(b"x", size) + b"</string>",
    "repeated-names": lambda size: b"<a>" + b"<b>1</b><c>2</c>" * part(size, 59_000) + b"</a>",
    "list": lambda size: b"<ArrayOfInt>" + b"<int>1</int>" * part(size, 118_000) + b"</ArrayOfInt>",
    "digits": lambda size: b"<int>" + filled(b"1", size) + b"</int>",
    "float": lambda size: b"<double>" + filled(b"1", size) + b"</double>",
    "string-in-string": string_in_string,
    "one-tag": lambda size: b"<" + filled(b"a", size),
    "declaration": lambda size: b"<?xml " + filled(b"encoding", size) + b"\xff",
    "not-utf-8": lambda size: b"<a>" + filled(b"\xff", size),
    "utf-16": lambda size: b"\xff\xfe" + ("<a>" + "\u4e2d" * (size // 2)).encode("utf-16-le"),
}
_JSON: dict[str, Make] = {
    "deep": lambda size: filled(b"[", size),
    "deep-objects": lambda size: filled(b'{"a":', size),
    "deep-and-closed": lambda size: b"[" * 900 + b"]" * 900,
    "lists": lambda size: b"[" + filled(b"[],", size) + b"[]]",
    "objects": lambda size: b"[" + filled(b'{"a":1},', size) + b"1]",
    "keys": lambda size: b"{" + b",".join(b'"%d":"%d"' % (n, n) for n in range(size // 14)) + b"}",
    "below-the-limit": lambda size: (
        b"[" + b",".join(b'{"%d":"x%d"}' % (n, n) for n in range(part(size, 110_000))) + b"]"
    ),
    "numbers": lambda size: b"[" + filled(b"1,", size) + b"1]",
    "digits": lambda size: b"[" + filled(b"1", size) + b"]",
    "escapes": lambda size: b'["' + filled(b"\\ud800", size) + b'"]',
    "backslashes": lambda size: b'["' + filled(b"\\\\", size) + b'\\ud800"]',
    "open-string": lambda size: b'["' + filled(b"x", size),
    "long-string": lambda size: b'["' + filled(b"x", size) + b'"]',
    "exponents": lambda size: b"[" + b"1e999," * part(size, 200_000) + b"1]",
}


def wide_class(size: int) -> bytes:
    """One class with a long name, and many objects of it."""
    name = filled(b"n", size // 2)
    first = b"\x04" + i32(1) + text(name) + i32(0)
    return nrbf(first, b"".join(b"\x01" + i32(n, 1) for n in range(2, size // 18)))


def linked(count: int) -> bytes:
    """A list of objects, each referring to the next."""
    first = b"\x04" + i32(1) + text(b"N") + i32(1) + text(b"n") + b"\x02" + b"\x09" + i32(2)
    rest = b"".join(b"\x01" + i32(n, 1) + b"\x09" + i32(n + 1) for n in range(2, count))
    return nrbf(first, rest, b"\x01" + i32(count, 1) + b"\x0a")


def shared_string(size: int) -> bytes:
    """A large string, and an array that refers to it again and again."""
    count = size // 10
    refs = (b"\x09" + i32(2)) * count
    return nrbf(b"\x10" + i32(1, count), refs, b"\x06" + i32(2) + text(filled(b"s", size // 2)))


def boxes(size: int) -> bytes:
    return nrbf(b"\x10" + i32(1, size // 6), filled(b"\x08\x08" + i32(7), size))


def inline(size: int) -> bytes:
    """Arrays in arrays, without a reference."""
    return b"\0" + i32(1, -1, 1, 0) + b"".join(b"\x10" + i32(n, 1) for n in range(1, size // 9))


_NRBF: dict[str, Make] = {
    "nulls": lambda size: nrbf(b"\x10" + i32(1, 0x7FFFFFFF), b"\x0e" + i32(0x7FFFFFFF)),
    "null-runs": lambda size: nrbf(
        b"".join(
            b"\x10" + i32(n, part(size, 900_000)) + b"\x0e" + i32(part(size, 900_000))
            for n in range(1, size // 14)
        )
    ),
    "announced-array": lambda size: nrbf(b"\x0f" + i32(1, 0x7FFFFFFF) + b"\x08"),
    "announced-string": lambda size: nrbf(b"\x06" + i32(1) + b"\xff\xff\xff\xff\x07"),
    "announced-members": lambda size: nrbf(b"\x04" + i32(1) + text(b"A") + i32(0x7FFFFFFF)),
    "rectangle": lambda size: nrbf(
        b"\x07" + i32(1) + b"\x02" + i32(3, 0x7FFFFFFF, 0x7FFFFFFF, 0) + b"\x00\x08"
    ),
    "rank": lambda size: nrbf(b"\x07" + i32(1) + b"\x02" + i32(0x7FFFFFFF)),
    "tall-rectangle": lambda size: nrbf(
        b"\x07" + i32(1) + b"\x02" + i32(2, part(size, 900_000), 0) + b"\x00\x08"
    ),
    "class-name": wide_class,
    "linked": lambda size: linked(part(size, 100_000)),
    "linked-below-the-limit": lambda size: linked(200),
    "shared-string": shared_string,
    "boxes": boxes,
    "inline": inline,
    "booleans": lambda size: nrbf(b"\x0f" + i32(1, size) + b"\x01" + bytes(size)),
    "integers": lambda size: nrbf(
        b"\x0f" + i32(1, size // 4) + b"\x08" + bytes(range(4)) * (size // 4)
    ),
    "integers-below-the-limit": lambda size: nrbf(
        b"\x0f" + i32(1, part(size, 990_000)) + b"\x08" + bytes(range(4)) * part(size, 990_000)
    ),
    "bytes": lambda size: nrbf(b"\x0f" + i32(1, size) + b"\x02" + bytes(size)),
    "not-utf-8": lambda size: nrbf(b"\x06" + i32(1) + text(filled(b"\xff", size))),
    "strings": lambda size: nrbf(
        b"\x11" + i32(1, size // 8),
        b"".join(b"\x06" + i32(n) + text(b"ab") for n in range(2, size // 8 + 2)),
    ),
    "libraries": lambda size: nrbf(
        b"".join(b"\x0c" + i32(n) + text(b"l") for n in range(size // 7))
    ),
    "members": lambda size: nrbf(
        b"\x04" + i32(1) + text(b"A") + i32(size // 6) + filled(text(b"m"), size // 3) + bytes(size)
    ),
    "decimals": lambda size: nrbf(
        b"\x0f" + i32(1, part(size, 990_000)) + b"\x05" + text(b"1.5") * part(size, 990_000)
    ),
    "dates": lambda size: nrbf(
        b"\x0f" + i32(1, part(size, 500_000)) + b"\x0d" + bytes(8) * part(size, 500_000)
    ),
}


def session(size: int) -> bytes:
    """A long session string, written again and again."""
    word = filled(b"w", size // 2)
    table = text(word)
    document = b"\x40\x01a" + filled(b"\xaa\x01", size // 2) + b"\x01"
    envelope = variable(len(table)) + table + document
    return gram(8, b"\x0c\x06" + variable(len(envelope)) + envelope + b"\x07", 3)


def array(size: int, attribute: int) -> bytes:
    """An array whose element has a long name or attribute."""
    name = text(filled(b"n", attribute))
    count = size // 2
    return gram(7, b"\x03\x40" + name + b"\x01\xb5" + variable(count) + bytes(count))


_WCF: dict[str, Make] = {
    "session-string": session,
    "array": lambda size: array(size, size // 4),
    "short-array": lambda size: array(size, 1),
    "deep": lambda size: gram(7, filled(b"\x40\x01a", size)),
    "elements": lambda size: gram(7, b"\x40\x01a" + filled(b"\x40\x01b\x01", size) + b"\x01"),
    "comments": lambda size: gram(7, filled(b"\x02\x00", size)),
    "attributes": lambda size: gram(7, b"\x40\x01a" + filled(b"\x04\x01a\x84", size) + b"\x01"),
    "list": lambda size: gram(7, b"\x40\x01a\x04\x01b\xa4" + filled(b"\x80", size)),
    "words": lambda size: gram(7, b"\x40\x01a" + filled(b"\xaa\x04", size) + b"\x01"),
    "doubles": lambda size: gram(
        7, b"\x40\x01a" + filled(b"\x92" + struct.pack("<d", 1 / 3), size) + b"\x01"
    ),
    "empty-envelopes": lambda size: gram(7, b"\x0c" + filled(b"\x06\x00", size) + b"\x07", 3),
    "small-envelopes": lambda size: gram(
        7, b"\x0c" + filled(b"\x06\x04\x40\x01a\x01", size) + b"\x07", 3
    ),
    "text-envelope": lambda size: gram(3, b"<a>" + filled(b"<b/>", size) + b"</a>"),
    "strings": lambda size: gram(
        8, b"\x0c\x06" + variable(size + 5) + variable(size) + bytes(size) + b"\x07", 3
    ),
    "announced": lambda size: gram(7, b"\x40\xff\xff\xff\xff\x07a"),
}

_GZIP = b'{"rbs2-content-encoding":"gzip","rbs2-msg-id":"1"}'
_OTHER: dict[str, Callable[[int], tuple[bytes, dict[str, Any]]]] = {
    "gzip-bomb": lambda size: (gzip.compress(bytes(40 * size)), {"extension": _GZIP}),
    "gzip-json-bomb": lambda size: (
        gzip.compress(b"[" + filled(b"[],", 20 * size)),
        {"extension": _GZIP},
    ),
    "text": lambda size: (filled(b"text\n", size), {}),
    "wide-text": lambda size: ("\U0001f600".encode() + filled(b"text\n", size), {}),
    "zeros": lambda size: (bytes(size), {}),
    "bytes": lambda size: (filled(b"\x80\x81", size), {}),
    "bstr": lambda size: (filled(b"a\0", size), {"body_type": 8}),
    "bstr-xml": lambda size: (("<a>" + "<b/>" * (size // 8)).encode("utf-16-le"), {"body_type": 8}),
    "lpstr": lambda size: (filled(b"\x81", size), {"body_type": 30}),
    "headers-ends": lambda size: (
        b"",
        {"extension": b"<ArrayOfHeaderInfo>" + filled(b"</ArrayOfHeaderInfo>", size)},
    ),
    "headers-references": lambda size: (
        b"",
        {
            "extension": b"<ArrayOfHeaderInfo><HeaderInfo><Key>"
            + filled(b"&#x0;", size)
            + b"</Key></HeaderInfo></ArrayOfHeaderInfo>"
        },
    ),
    "headers-types": lambda size: (
        b"",
        {
            "extension": b"<ArrayOfHeaderInfo><HeaderInfo>"
            b"<Key>NServiceBus.EnclosedMessageTypes</Key><Value>"
            + filled(b"[;", size)
            + b"</Value></HeaderInfo></ArrayOfHeaderInfo>"
        },
    ),
    "headers-rebus": lambda size: (b"", {"extension": b'{"rbs2-a":"' + filled(b"x", size) + b'"}'}),
    "headers-rebus-error": lambda size: (
        b"",
        {"extension": b'{"rbs2-error-details":"' + filled(b"a.Exception", size) + b'"}'},
    ),
    "label": lambda size: (
        b"",
        {"label": "<CorrId><WinIdName>" + "<CorrId>" * (size // 8)},
    ),
    "header-name": lambda size: (
        b"",
        {"extension": b"<!---->" * (size // 7) + b"<ArrayOfHeaderInfo/>"},
    ),
}
