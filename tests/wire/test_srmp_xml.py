"""The limits within which XML of strangers is read, [MC-MQSRM] 2.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.wire.srmp.xml import (
    ATTRIBUTES_MAX,
    DEPTH_MAX,
    ELEMENTS_MAX,
    ENVELOPE_SIZE_MAX,
    octets_of,
    read_xml,
)

LAUGHS = (
    '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;&x;&x;">]>'
    "<a>&y;&y;&y;&y;&y;&y;&y;</a>"
)


def test_names_texts_and_attributes_are_read() -> None:
    root = read_xml(
        b'<a xmlns="urn:1" xmlns:p="urn:2" p:k="v">x<p:b k="w"/>y<!-- c --><![CDATA[<]]></a>'
    )
    assert root.name == "urn:1 a"
    assert root.attributes == {"urn:2 k": "v"}
    assert root.text == "xy<"
    assert [(child.name, child.attributes) for child in root.children] == [("urn:2 b", {"k": "w"})]


@pytest.mark.spec("MC-MQSRM 2.2/1")
@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("", "<a/>"),
        (" ", " <a/> "),
        ("<a>", "<a></a>"),
        ("<a></b>", "<a><b></b></a>"),
        ("<a/><b/>", "<a><b/></a>"),
        ("a", "<a>a</a>"),
        ("<a>&unknown;</a>", "<a>&amp;</a>"),
        ("<a>&#0;</a>", "<a>&#9;</a>"),
        ("<a b=1/>", '<a b="1"/>'),
        ('<a b="1" b="2"/>', '<a b="1" c="2"/>'),
        ("<p:a/>", '<a xmlns:p="urn:p"><p:b/></a>'),
        ("<a>\1</a>", "<a>\t</a>"),
        ('<?xml version="1.0"?', '<?xml version="1.0"?><a/>'),
        (
            '<?xml version="1.0" encoding="latin-1"?><a/>',
            '<?xml version="1.0" encoding="UTF-8"?><a/>',
        ),
    ],
)
def test_what_is_well_formed_is_read_and_the_rest_refused(broken: str, whole: str) -> None:
    with pytest.raises(MalformedPacket):
        read_xml(broken.encode())
    assert read_xml(whole.encode()).name == "a"


@pytest.mark.spec("MC-MQSRM 2.2/2")
@pytest.mark.parametrize(
    "xml",
    [
        "<!DOCTYPE a><a/>",
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x"> %x;]><a/>',
        LAUGHS,
    ],
)
def test_a_doctype_is_refused(xml: str) -> None:
    with pytest.raises(MalformedPacket, match="DOCTYPE"):
        read_xml(xml.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-7"])
def test_another_encoding_than_utf8_is_refused(encoding: str) -> None:
    with pytest.raises(MalformedPacket):
        read_xml("<!DOCTYPE a><a>+AG8-</a>".encode(encoding))


@pytest.mark.spec("MC-MQSRM 2.2/2")
def test_size_depth_elements_and_attributes_are_limited() -> None:
    fill = b" " * (ENVELOPE_SIZE_MAX - 7)
    assert read_xml(b"<a>" + fill + b"</a>").name == "a"
    with pytest.raises(MalformedPacket, match="bytes"):
        read_xml(b"<a> " + fill + b"</a>")

    assert read_xml(b"<a>" * DEPTH_MAX + b"</a>" * DEPTH_MAX).name == "a"
    with pytest.raises(MalformedPacket, match="levels"):
        read_xml(b"<a>" * (DEPTH_MAX + 1) + b"</a>" * (DEPTH_MAX + 1))

    assert len(read_xml(b"<a>" + b"<b></b>" * (ELEMENTS_MAX - 1) + b"</a>").children) == 1023
    with pytest.raises(MalformedPacket, match="elements"):
        read_xml(b"<a>" + b"<b></b>" * ELEMENTS_MAX + b"</a>")

    attributes = [f' a{n}=""' for n in range(ATTRIBUTES_MAX)]
    assert len(read_xml(f"<a{''.join(attributes)}/>".encode()).attributes) == ATTRIBUTES_MAX
    with pytest.raises(MalformedPacket, match="attributes"):
        read_xml(f'<a{"".join(attributes)} b=""/>'.encode())


def test_the_literal_octets_of_an_element_are_found() -> None:
    xml = b'<a xmlns="u"><b  x = ">"><c>1</c ></b ><!--<b/>--><x><b/></x><b>\xc3\xa9<b/></b></a>'
    assert octets_of(xml, ("u a", "u b")) == [
        b'<b  x = ">"><c>1</c ></b >',
        b"<b>\xc3\xa9<b/></b>",
    ]
    assert octets_of(xml, ("u a",)) == [xml]
    assert octets_of(xml, ("u c",)) == []


@given(st.binary(max_size=200) | st.text('<>/ab"=&;![]CDATA-? \n', max_size=200).map(str.encode))
def test_any_bytes_give_an_element_or_the_proper_error(xml: bytes) -> None:
    try:
        root = read_xml(xml)
    except MalformedPacket:
        return
    assert root.name
    assert octets_of(xml, (root.name,))


@pytest.mark.parametrize("encoding", ["utf-7", "UTF-16", "iso-8859-1", "utf-8x"])
def test_what_claims_another_encoding_is_refused(encoding: str) -> None:
    """It would be read as UTF-8, and by the next reader as what it claims."""
    with pytest.raises(MalformedPacket, match="not in UTF-8"):
        read_xml(f'<?xml version="1.0" encoding="{encoding}"?><a/>'.encode())


@pytest.mark.parametrize("declared", ["", ' encoding="UTF-8"', ' encoding="utf-8"'])
def test_utf_8_may_be_declared(declared: str) -> None:
    assert read_xml(f'<?xml version="1.0"{declared}?><a/>'.encode()).name == "a"
