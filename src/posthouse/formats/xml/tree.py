"""XML of a sender, read into a tree by expat within limits; a DTD ends the reading at once.

ElementTree's parser builds the tree without a call into Python for each element, which is what
makes small documents quick. Nothing is fetched and no file is opened: a document with a DTD is
refused before the parser sees it, so there are no entities beside the five of XML.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final
from xml.etree.ElementTree import Element, ParseError, XMLParser

from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.text import NAMED, PADDING, UTF_8, decoded

XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
_DECLARATION: Final = re.compile(
    rb"""<\?xml[ \t\r\n][^>]*?encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z0-9._-]{1,40})["']"""
)
_PROLOG_DECLARATION: Final = re.compile(r"<\?xml[ \t\r\n][^>]*?\?>[ \t\r\n]*")
_MARKUP: Final = re.compile(r"<[A-Za-z_:?!/\u0080-\U0010ffff]")
_ATTRIBUTE: Final = re.compile(rb"""=[ \t\r\n]*["']""")
_TEXT: Final = re.compile(rb">([^<>]*[^<> \t\r\n][^<>]*)<")
_PLAIN_START: Final = re.compile(rb"(?:<\?xml[^<>]*\?>)?[ \t\r\n]*<[A-Za-z_]")
_SPACE: Final = b" \t\r\n"
_PROLOG_MAX: Final = 1000
_FED: Final = 1 << 20  # bytes that the parser gets at once
_LINE_ENDS_MAX: Final = 50_000


class Document:
    """A parsed document: the root, and the encoding of its bytes."""

    __slots__ = ("encoding", "root")

    def __init__(self, root: Element, encoding: str) -> None:
        self.root = root
        self.encoding = encoding

    @property
    def name(self) -> str:
        """The local name of the root."""
        return local(self.root.tag)

    @property
    def namespace(self) -> str | None:
        """The namespace of the root, None where it has none."""
        return namespace(self.root.tag) or None


def local(tag: str) -> str:
    """The name without its namespace."""
    return tag.rpartition("}")[2]


def namespace(tag: str) -> str:
    """The namespace of a name, empty where it has none."""
    return tag[1:].partition("}")[0] if tag.startswith("{") else ""


def looks_like_xml(text: str) -> bool:
    """Whether markup begins here, after padding."""
    return _MARKUP.match(text.lstrip(PADDING)) is not None


def without_declaration(text: str) -> str:
    """The document without padding and XML declaration."""
    text = text.strip(PADDING)
    found = _PROLOG_DECLARATION.match(text)
    return text[found.end() :] if found else text


def read_document(body: bytes, limits: Limits) -> Document | None:
    """The document in bytes that begin with markup, None where they are not text at all.

    The bytes decide the encoding; the declaration is asked only where they are not UTF-8.
    """
    if body.isascii() or decoded(body, "utf-8") is not None:
        return Document(parse(body, limits), UTF_8)
    return _named(body, limits)


def _named(body: bytes, limits: Limits) -> Document | None:
    """Not UTF-8: then the declared encoding, if it is a usual one."""
    if not body.startswith(b"<?xml"):
        return None
    found = _DECLARATION.match(body)
    name = found[1].decode("ascii").lower() if found else ""
    text = decoded(body, NAMED[name]) if name in NAMED else None
    if text is None or not text.startswith("<"):
        raise FormatError("the XML is not UTF-8, and names no other encoding that fits")
    return Document(parse(text.encode(), limits), name)


def parse_text(text: str, limits: Limits) -> Element:
    """The root of a document that is text already: its declaration may name any encoding."""
    return parse(text.strip(PADDING).encode("utf-8", "replace"), limits)


def parse(data: bytes, limits: Limits) -> Element:
    """The root of a document in UTF-8."""
    data = data.rstrip(b"\0" + _SPACE)
    _check(data, limits)
    if b"\r" in data:
        data = _keep_line_ends(data)
    parser = XMLParser(encoding="utf-8")
    try:
        for at in range(0, len(data), _FED):
            parser.feed(data if len(data) <= _FED else data[at : at + _FED])
        root: Element = parser.close()
    except ParseError as error:
        raise FormatError(f"not well-formed XML: {error}") from None
    return root


def _check(data: bytes, limits: Limits) -> None:
    if len(data) > 4 * min(limits.elements, limits.attributes, limits.lines):
        _check_counts(data, limits)
    if _PLAIN_START.match(data):
        return
    at = root_at(data)
    if at is None:
        raise FormatError(f"XML with more than {_PROLOG_MAX} comments before the root")
    if data.startswith(b"<!DOCTYPE", at):
        raise FormatError("XML with a DTD is not read")


def _check_counts(data: bytes, limits: Limits) -> None:
    """Refuse what would take too much memory; a smaller document cannot have that many."""
    if data.count(b"<") - data.count(b"</") > limits.elements:
        raise FormatError(f"XML with more than {limits.elements} elements")
    if data.count(b"\n") + data.count(b"&") > limits.lines:
        raise FormatError(f"XML with more than {limits.lines} lines and references")
    if data.count(b"=") > limits.attributes and _has_many(data, limits.attributes):
        raise FormatError(f"XML with more than {limits.attributes} attributes")


def _has_many(data: bytes, most: int) -> bool:
    return next(islice(_ATTRIBUTE.finditer(data), most, None), None) is not None


def root_at(data: bytes) -> int | None:
    """Where the first thing begins that is not a declaration, an instruction or a comment.

    A DTD stands there or nowhere. None where there are too many comments to look further.
    """
    at = 0
    for _ in range(_PROLOG_MAX):
        while data[at : at + 1] in (b" ", b"\t", b"\r", b"\n"):
            at += 1
        if data.startswith(b"<?", at):
            end = data.find(b"?>", at)
            stop = end + 2
        elif data.startswith(b"<!--", at):
            end = data.find(b"-->", at)
            stop = end + 3
        else:
            return at
        if end < 0:
            return at
        at = stop
    return None


def _keep_line_ends(data: bytes) -> bytes:
    """CR inside text as a reference: .NET's reader leaves it, expat would make it LF."""
    count = data.count(b"\r")
    if count == data.count(b">\r\n") or count > _LINE_ENDS_MAX:
        return data
    if b"<!" in data or data.count(b"<?") > 1 or data.count(b">") > data.count(b"<"):
        return data
    return _TEXT.sub(_with_references, data)


def _with_references(text: re.Match[bytes]) -> bytes:
    return text[0].replace(b"\r", b"&#13;")
