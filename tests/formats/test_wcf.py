"""Binary XML record by record, frames that break, and content types by name."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any
from xml.etree.ElementTree import canonicalize

import pytest

from posthouse.formats import DEFAULT, Limits, decode
from posthouse.formats.encode import wcf_text_body
from posthouse.formats.limits import FormatError
from posthouse.formats.wcf.nbfx import BinaryXml
from tests.formats.hostile import gram, text, variable
from tests.support.format_vectors import FOLDER

RECORDS = json.loads((FOLDER / "nbfx-records.json").read_text("utf-8"))
ENVELOPE = (
    '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="urn:x"><s:Header>'
    '<Action xmlns="http://schemas.xmlsoap.org/ws/2004/08/addressing">urn:act</Action></s:Header>'
    "<s:Body><Do><n>ü</n></Do></s:Body></s:Envelope>"
)


def printed(data: bytes, limits: Limits = DEFAULT) -> str:
    return BinaryXml(data, 0, ["one", "two"], limits).document()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["record"])
def test_every_record(record: dict[str, Any]) -> None:
    ours, theirs = printed(bytes.fromhex(record["hex"])), record["xml"]
    assert canonicalize(f"<r>{ours}</r>", with_comments=True) == canonicalize(
        f"<r>{theirs}</r>", with_comments=True
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("92 000000000000f03f", "1"),
        ("92 0000000000000080", "-0"),
        ("92 000000000000f07f", "INF"),
        ("92 f1f3e5e5ebf5f87f", "NaN"),
        ("92 50efe2d6e41a4b44", "1E+21"),
        ("92 0100000000000000", "5E-324"),
        ("92 9a9999999999b93f", "0.1"),
        ("92 f168e388b5f8e43e", "1E-05"),
        ("92 00003426f56b0c43", "1E+15"),
        ("90 cdcccc3d", "0.1"),
        ("90 8096984b", "2E+07"),
        ("ae 00c0692ac9000000", "P1D"),
        ("ae 0100000000000000", "PT0.0000001S"),
        ("ae 0000000000000000", "PT0S"),
        ("94 0000000000000000 0000000000000000", "0"),
        ("94 0000 02 80 00000000 6400000000000000", "-1.00"),
        ("98 03 610d62", "a&#xD;b"),
        ("98 02 0141", "\ufffdA"),
        ("aa 03", "two"),
        ("bc 00 01", "a:one"),
    ],
)
def test_texts(record: str, expected: str) -> None:
    assert printed(bytes.fromhex("4001 61" + record + "01")) == f"<a>{expected}</a>"


@pytest.mark.parametrize(
    "document",
    [
        "400161",
        "01",
        "400161 0101",
        "8400",
        "400161 0401628501",
        "4001618401 040162 84",
        "40016178",
        "400161a5",
        "400161be",
        "42ffff03",
        "aa05",
        "400161b402",
        "400161bc1a00",
        "400161b60161",
        "400161940100000000000000 0000000000000000",
        "400161 98ff",
        "400161 9cffffffff",
        "03 84",
        "03400161 84",
        "0340016101 8701",
        "40ffffffffff",
    ],
)
def test_binary_xml_that_breaks_its_format(document: str) -> None:
    with pytest.raises(FormatError):
        printed(bytes.fromhex(document))


@pytest.mark.parametrize(
    "limits",
    [Limits(depth=2), Limits(elements=1), Limits(text=10)],
    ids=["depth", "records", "text"],
)
def test_limits_of_binary_xml(limits: Limits) -> None:
    document = b"\x40\x01a" * 3 + b"\x01" * 3
    assert printed(document)
    with pytest.raises(FormatError):
        printed(document, limits)


def named(content_type: bytes, envelope: bytes) -> bytes:
    return (
        b"\0\x01\0\x01\x04\x02" + text(b"net.msmq://a/b") + b"\x04" + text(content_type) + envelope
    )


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("content_type", "envelope"),
    [
        (b"application/soap+xml", ENVELOPE.encode()),
        (b"text/xml; charset=utf-16", ENVELOPE.encode("utf-16-le")),
        (b'application/soap+xml; action="x"; charset="unicodeFFFE"', ENVELOPE.encode("utf-16-be")),
        (b"application/soap+xml+gzip", gzip.compress(ENVELOPE.encode(), mtime=0)),
        (b"application/soap+xml+deflate", deflated(ENVELOPE.encode())),
    ],
)
def test_content_types_by_name(content_type: bytes, envelope: bytes) -> None:
    result = decode(named(content_type, envelope))
    assert (result.format, result.error) == ("wcf", None)
    (found,) = result.details["envelopes"]
    assert (found["action"], found["operation"], found["xml"]) == ("urn:act", "Do", ENVELOPE)
    assert result.value == {"n": "ü"}


@pytest.mark.parametrize("encoding", range(6))
def test_text_that_we_write_is_read_back(encoding: int) -> None:
    result = decode(wcf_text_body(ENVELOPE, "net.msmq://a/b" * 20, encoding), body_type=0x1011)
    assert (result.error, result.details["encoding"]) == (None, encoding)
    assert result.details["envelopes"][0]["xml"] == ENVELOPE


def test_the_strings_of_a_session_go_on_over_its_envelopes() -> None:
    def framed(table: bytes, document: bytes) -> bytes:
        envelope = variable(len(table)) + table + document
        return b"\x06" + variable(len(envelope)) + envelope

    first = framed(text(b"x") + text(b"y"), b"\x42\x01\x01")
    second = framed(text(b"z"), b"\x42\x05\xab\x03")
    result = decode(gram(8, b"\x0c" + first + second + b"\x07", 3))
    assert result.error is None
    assert [one["xml"] for one in result.details["envelopes"]] == ["<x></x>", "<z>y</z>"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (gram(7, b"\x40\x01a"), "ends inside"),
        (gram(6, b""), "MTOM"),
        (gram(99, b""), "99"),
        (gram(3, b"<a>"), "well-formed"),
        (gram(3, b"<!DOCTYPE a><a/>"), "DTD"),
        (gram(3, b"<a/>", 3), "end of the preamble"),
        (gram(3, b"\x0c\x09", 3), "9 is not a record"),
        (gram(3, b"\x0c", 3), "end in the middle"),
        (gram(8, b"\x0c\x06\x02\x09a\x07", 3), "table of strings"),
        (b"\0\x01\0\x01\x04\x02" + variable(3000) + b"a" * 3000, "via of 3000"),
        (b"\0\x01\0\x01\x04\x02\x01a\x05", "where the encoding"),
        (b"\0\x01\0\x01\x04\x02", "end in the middle"),
    ],
)
def test_frames_that_break_keep_what_is_known(body: bytes, reason: str) -> None:
    result = decode(body, body_type=0x1011)
    assert result.format == "wcf"
    assert reason in (result.error or "")
    assert result.details["mode"] in ("datagram", "session")


def test_envelopes_before_a_broken_frame_are_there() -> None:
    result = decode(gram(3, b"\x0c\x06\x04<a/>\x09", 3))
    assert result.error
    assert [one["xml"] for one in result.details["envelopes"]] == ["<a/>"]
