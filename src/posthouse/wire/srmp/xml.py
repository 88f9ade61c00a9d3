"""XML of a peer, read into a small tree within narrow limits ([MC-MQSRM] 2.2, wire-advice 5).

expat keeps nothing from one document to the next. lxml was tried first: it remembers every name it
has ever seen in a process, so that strangers could fill the memory with names. A DOCTYPE ends the
reading at once, so there are no entities, nothing is fetched and no file is opened.
"""

from typing import Final, NamedTuple, NoReturn
from xml.parsers.expat import ExpatError, ParserCreate, XMLParserType

from posthouse.model.errors import MalformedPacket
from posthouse.model.text import excerpt

ENVELOPE_SIZE_MAX: Final = 0x40000  # a list of destinations may be long
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
ELEMENTS_MAX: Final = 1024
DEPTH_MAX: Final = 16
ATTRIBUTES_MAX: Final = 32  # of one element


class Element(NamedTuple):
    """An element; its name is namespace, blank, local name."""

    name: str
    attributes: dict[str, str]
    children: "list[Element]"
    texts: list[str]

    @property
    def text(self) -> str:
        """All text directly in it."""
        return "".join(self.texts)


def refuse_doctype(*_: object) -> NoReturn:
    """A DOCTYPE ends the reading: entities come with it."""
    raise MalformedPacket("XML with a DOCTYPE")


def read_xml(xml: bytes) -> Element:
    """The root element of a document."""
    if len(xml) > ENVELOPE_SIZE_MAX:
        raise MalformedPacket(f"an envelope of {len(xml)} bytes, {ENVELOPE_SIZE_MAX} is the limit")
    if xml.count(b"<") > 2 * ELEMENTS_MAX:  # each has two tags at most
        raise MalformedPacket(f"an envelope of more than {ELEMENTS_MAX} elements")
    top = Element("", {}, [], [])
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > DEPTH_MAX or len(attributes) > ATTRIBUTES_MAX:
            raise MalformedPacket("XML with too many levels or attributes")
        element: Element = new(Element, (name, attributes, [], []))
        stack[-1][2].append(element)
        stack.append(element)

    def data(text: str) -> None:
        stack[-1][3].append(text)

    def end(_: str) -> None:
        stack.pop()

    new = tuple.__new__
    # Nothing here refers back to the parser; otherwise each message would leave a reference cycle.
    parser = ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = data
    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.XmlDeclHandler = _check_encoding
    _parse(parser, xml)
    return top.children[0]


def _check_encoding(version: str, encoding: str | None, standalone: int) -> None:
    """What is read as UTF-8 must not claim to be something else: others might believe it."""
    if encoding is not None and encoding.lower() not in _UTF_8:
        raise MalformedPacket(f"XML in {excerpt(encoding)}, and not in UTF-8")


def _parse(parser: XMLParserType, xml: bytes) -> None:
    try:
        parser.Parse(xml, True)
    except ExpatError as error:
        raise MalformedPacket(f"not well-formed XML: {error}") from None


def octets_of(xml: bytes, path: tuple[str, ...]) -> list[bytes]:
    """The literal octets of every element at such a path of names, tags included."""
    parser = ParserCreate("utf-8", " ")
    parser.StartDoctypeDeclHandler = refuse_doctype
    names: list[str] = []
    starts: list[int] = []
    found: list[bytes] = []

    def start(name: str, _: dict[str, str]) -> None:
        names.append(name)
        starts.append(parser.CurrentByteIndex)

    def end(_: str) -> None:
        begin = starts.pop()
        if len(names) == len(path) and tuple(names) == path:
            found.append(xml[begin : xml.index(b">", parser.CurrentByteIndex) + 1])
        names.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    _parse(parser, xml)
    return found
