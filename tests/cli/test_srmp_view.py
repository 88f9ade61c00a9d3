"""`posthouse decode` on HTTP messages that carry SRMP."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli import main
from posthouse.cli.decode import command as decode
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mapping import packet_of
from tests.wire.srmp import EXAMPLES, example

VECTORS = Path(__file__).parent.parent / "vectors" / "srmp"
KINDS = {
    "4.1-simple": "SRMP user message",
    "4.3-delivery-receipt": "SRMP delivery receipt",
    "4.3-commitment-receipt": "SRMP commitment receipt",
    "4.4-receipt-1": "SRMP stream receipt",
}
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: Microsoft-IIS/7.0\r\n\r\n"


def file_of(name: str) -> Path:
    return VECTORS / f"{name}.http"


def decoded(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, Any]]:
    assert main.run(["decode", "--json", str(file)]) == main.DONE
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def parts(message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {header["name"]: header["fields"] for header in message["headers"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_told_with_its_sections(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (message,) = decoded(capsys, file_of(name))
    assert message["kind"] == KINDS.get(name, message["kind"])
    assert message["size"] == file_of(name).stat().st_size
    assert main.run(["decode", str(file_of(name))]) == main.DONE
    said = capsys.readouterr().out
    assert "path [MC-MQSRM 2.2.4]" in said
    assert "properties [MC-MQSRM 2.2.5.1]" in said


def test_elements_are_told_by_the_names_of_the_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (message,) = decoded(capsys, file_of("4.3-request"))
    found = parts(message)
    assert found["Request"]["request_line"] == "POST /msmq/private$/simpleq HTTP/1.1"
    assert found["Request"]["soapaction"] == '"MSMQMessage"'
    assert found["path"]["to"] == "http://machine2/msmq/private$/simpleq"
    assert found["path"]["rev/via"] == "http://machine1/MSMQ/private$/Q1"
    asked = found["services"]
    assert asked["commitmentReceiptRequest/sendTo"].endswith("/deliverydone")
    assert asked["commitmentReceiptRequest/negativeOnly"] == "present"
    assert found["Body"]["content_id"] == "body@ff3af301-3196-497a-a918-72147c871a13"
    assert main.run(["decode", str(file_of("4.3-request"))]) == main.DONE
    assert "commitmentReceiptRequest/negativeOnly present" in capsys.readouterr().out


def test_a_whole_conversation_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("4.4-message-1", "4.4-receipt-1", "4.4-message-2")
    file = tmp_path / "session.bin"
    file.write_bytes(b"".join(file_of(name).read_bytes() + ANSWER for name in names))
    found = decoded(capsys, file)
    assert [message["kind"] for message in found] == [
        "SRMP user message",
        "HTTP response",
        "SRMP stream receipt",
        "HTTP response",
        "SRMP user message",
        "HTTP response",
    ]
    assert parts(found[1])["Response"]["status_line"] == "HTTP/1.1 200 OK"
    assert parts(found[2])["streamReceipt"]["lastOrdinal"] == "1"


def test_a_bare_envelope_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "envelope.xml"
    xml = example("4.2-msmq-element").parts.envelope
    strange = b'<x:y xmlns:x="urn:x"><a k="v"/><a>1</a><a>2</a></x:y></se:Header>'
    file.write_bytes(xml.replace(b"</se:Header>", strange))
    (message,) = decoded(capsys, file)
    assert message["headers"][-1] == {
        "section": "urn:x",
        "name": "y",
        "fields": {"a k": "v", "a 2": "1", "a 3": "2"},
    }


def test_a_stored_message_is_told_with_what_http_brought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, _, split = example("4.2-msmq-element")
    file = tmp_path / "stored.bin"
    file.write_bytes(packet_of(read_envelope(split.envelope), split, head, 1_700_000_000))
    (message,) = decoded(capsys, file)
    found = parts(message)
    assert found["SRMPEnvelopeHeader"]["envelope"] == split.envelope.decode()
    compound = found["CompoundMessageHeader"]
    assert compound["message_body_size"] == 223
    assert compound["message_body_offset"] == len(head) + split.body_at
    assert main.run(["decode", str(file)]) == main.DONE
    assert "SRMPEnvelopeHeader [MS-MQRR 2.2.5.1.2.1]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (b"\r\n\r\n", b"\r\n", "no end"),
        (b"Content-Length: 906", b"Content-Length: 907", "only"),
        (b"Content-Length: 906", b"Transfer-Encoding: chunked", "chunks"),
        (b"Content-Length: 906", b"Content-Length: x", "Content-Length"),
        (b"Host: machine2", b"Host", "field"),
        (b"Host: machine2", b"SOAPAction: x", "repeated"),
        (b"<expiresAt>2007", b"<expiresAt>x007", "date"),
    ],
)
def test_damage_is_refused(
    old: bytes, new: bytes, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.http"
    file.write_bytes(file_of("4.1-simple").read_bytes().replace(old, new))
    assert main.run(["decode", str(file)]) == main.REFUSED
    said = capsys.readouterr().err
    assert "packet at offset 0" in said
    assert cause in said


@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4),
    st.sampled_from((b"", ANSWER)),
)
def test_damaged_messages_are_printed_or_refused(
    name: str, damage: list[tuple[int, int]], behind: bytes
) -> None:
    data = bytearray(file_of(name).read_bytes())
    for at, value in damage:
        data[at % len(data)] = value
    with suppress(RemoteProtocolError):
        for found in decode.split(bytes(data) + behind):
            for header in found.view.headers:
                assert [decode.words(value, key) for key, value in header.fields.items()]
