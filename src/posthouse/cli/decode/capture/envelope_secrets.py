"""Finds the content of applications in a SOAP envelope, to blank it.

Kept are the elements of SRMP with their texts, since they are the protocol. Everything else is of
an application: other elements of the SOAP header, the SOAP body, elements after it, attributes of
other names, comments. Elements are blanked whole, so the rest stays well-formed XML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate

from posthouse.model.errors import MalformedPacket
from posthouse.wire.capture.packets import Span
from posthouse.wire.srmp.envelope import BODY, DSIG, ENVELOPE, HEADER, HEADERS, MSMQ, RP, SE, SRMP
from posthouse.wire.srmp.xml import refuse_doctype

_SPACES: Final = frozenset({SE, RP, SRMP, MSMQ, DSIG})
_SPACES_WRITTEN: Final = frozenset(space.encode() for space in _SPACES)
_ATTRIBUTE: Final = re.compile(rb"""\s([^\s=/>"']+)\s*=\s*("[^"]*"|'[^']*')""")
_PLAIN_ATTRIBUTES: Final = frozenset(b"mustUnderstand actor Id Algorithm URI encodingStyle".split())
_TAG: Final = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")  # a value may hold `>`


class _Walk:
    """One pass over an envelope; `spans` are what is not of the protocol."""

    def __init__(self, xml: bytes) -> None:
        self.spans: list[Span] = []
        self._xml = xml
        self._path: list[str] = []
        self._blank_at = -1  # the beginning of an element that is blanked whole
        self._blank_depth = 0
        self._text_at = -1  # the beginning of text that is blanked, up to the next tag
        self._parser = ParserCreate("utf-8", " ")

    def run(self) -> None:
        """Reads all of it; `MalformedPacket` where it is not XML."""
        parser = self._parser
        parser.StartDoctypeDeclHandler = refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = lambda: self._text("x")
        parser.CommentHandler = lambda _: self._aside(b"<!--", b"-->")
        parser.ProcessingInstructionHandler = lambda *_: self._aside(b"<?", b"?>")
        try:
            parser.Parse(self._xml, True)
        except ExpatError as error:
            raise MalformedPacket(f"not well-formed XML: {error}") from None

    def _start(self, name: str, _: dict[str, str]) -> None:
        at = self._parser.CurrentByteIndex
        self._end_text(at)
        self._path.append(name)
        if self._blank_at >= 0:
            return
        end = self._tag_end(at)
        if self._is_kept():
            self.spans += _attributes(self._xml, at, end)
        elif self._xml.endswith(b"/>", at, end):
            self.spans.append((at, end))
        else:
            self._blank_at, self._blank_depth = at, len(self._path)

    def _is_kept(self) -> bool:
        path = self._path
        if len(path) <= 2:
            return path[0] == ENVELOPE and (len(path) == 1 or path[1] in (HEADER, BODY))
        if path[1] != HEADER or path[2] not in HEADERS:
            return False
        return path[-1].rpartition(" ")[0] in _SPACES

    def _end(self, _: str) -> None:
        at = self._parser.CurrentByteIndex
        self._end_text(at)
        if self._blank_at >= 0 and len(self._path) == self._blank_depth:
            self.spans.append((self._blank_at, self._tag_end(at)))
            self._blank_at = -1
        self._path.pop()

    def _text(self, text: str) -> None:
        """Text that is not in an element of SRMP."""
        if len(self._path) <= 2 and self._blank_at < 0 and self._text_at < 0 and text.strip():
            self._text_at = self._parser.CurrentByteIndex

    def _end_text(self, at: int) -> None:
        if self._text_at >= 0:
            self.spans.append((self._text_at, at))
            self._text_at = -1

    def _aside(self, opening: bytes, closing: bytes) -> None:
        """A comment or an instruction, which stays one."""
        at = self._parser.CurrentByteIndex
        self._end_text(at)
        if self._blank_at < 0:
            begin = at + len(opening)
            self.spans.append((begin, self._xml.index(closing, begin)))

    def _tag_end(self, at: int) -> int:
        match = _TAG.match(self._xml, at)
        return match.end() if match else len(self._xml)


def _attributes(xml: bytes, at: int, end: int) -> Iterator[Span]:
    """Values in a tag that are not of the protocol, names of other namespaces included."""
    for match in _ATTRIBUTE.finditer(xml, at, end):
        name, value = match[1], match[2][1:-1]
        if name == b"xmlns" or name.startswith(b"xmlns:"):
            is_plain = value in _SPACES_WRITTEN
        else:
            is_plain = name.rpartition(b":")[2] in _PLAIN_ATTRIBUTES
        if not is_plain:
            yield match.start(2) + 1, match.end(2) - 1


def envelope_secrets(xml: bytes) -> list[Span]:
    """What to blank of an envelope; `MalformedPacket` where it is not XML."""
    walk = _Walk(xml)
    walk.run()
    return [(start, end) for start, end in walk.spans if start < end]
