"""[MC-MQSRM] 2.2.2: payloads in MSMQ's form and in the standard one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from email.message import Message as EmailMessage
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.wire.srmp.mime_parts import (
    FRAME_SIZE_MAX,
    PARTS_MAX,
    Parts,
    PartsReader,
    read_parts,
    write_parts,
)
from tests.wire.srmp import EXAMPLES, GUID, GUID_TEXT, example

ENVELOPE = b"<se:Envelope/>"
KIND = 'multipart/related; boundary="MSMQ - SOAP boundary, 5"; type=text/xml'
DELIMITER = b"--MSMQ - SOAP boundary, 5"
XML_PART = b"Content-Type: text/xml; charset=UTF-8\r\nContent-Length: 14\r\n\r\n" + ENVELOPE


def part(content: bytes, name: str = "body", size: int | None = None) -> bytes:
    length = len(content) if size is None else size
    head = f"Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n"
    return f"{head}Content-Id: {name}@{GUID_TEXT}\r\n\r\n".encode() + content


def joined(*parts: bytes, crlf: bytes = b"", end: bytes = b"\r\n") -> bytes:
    """A payload; `crlf` stands in front of delimiters."""
    text = b"".join(DELIMITER + b"\r\n" + one + crlf for one in parts)
    return text + DELIMITER + b"--" + end


def contents(parts: Parts) -> tuple[bytes, bytes, bytes]:
    return parts.envelope, parts.body, parts.extension


def refused(payload: bytes, kind: str = KIND) -> None:
    with pytest.raises(MalformedPacket):
        read_parts(kind, payload)


BODIES = [
    b"",
    b"First Message",
    b"\r\n",
    b"\r\n--MSMQ - SOAP boundary, 5--\r\n",
    b"--MSMQ - SOAP boundary, 5",
    bytes(range(256)) * 5,
    b"\r\n\r\n",
]


@pytest.mark.spec("MC-MQSRM 2.2.2/5", "MC-MQSRM 2.2.2/8", "MC-MQSRM 2.2.2/9", "MC-MQSRM 2.2.2/10")
@pytest.mark.parametrize("crlf", [b"", b"\r\n"])
@pytest.mark.parametrize("end", [b"", b"\r\n"])
@pytest.mark.parametrize("body", BODIES)
def test_both_forms_give_the_same_octets(body: bytes, crlf: bytes, end: bytes) -> None:
    payload = joined(XML_PART, part(body), part(b"ext", "extension"), crlf=crlf, end=end)
    found = read_parts(KIND, payload)
    assert contents(found) == (ENVELOPE, body, b"ext")
    assert payload[found.body_at : found.body_at + len(body)] == body
    assert found.body_id == f"body@{GUID_TEXT}"
    assert found.extension_id == f"extension@{GUID_TEXT}"
    assert found.payload is payload


@pytest.mark.spec("MC-MQSRM 2.2.2/6")
@pytest.mark.parametrize("kind", ["text/xml", "text/xml; charset=UTF-8", "Text/XML"])
def test_a_bare_envelope_has_no_parts(kind: str) -> None:
    found = read_parts(kind, ENVELOPE)
    assert contents(found) == (ENVELOPE, b"", b"")
    assert found.body_at == len(ENVELOPE)


@pytest.mark.spec("MC-MQSRM 2.2.2/7")
def test_msmqs_form_is_written() -> None:
    kind, payload = write_parts(ENVELOPE, b"First Message", guid=GUID, number=5)
    assert kind == KIND
    assert payload == joined(XML_PART, part(b"First Message"))
    assert payload.endswith(b"First Message" + DELIMITER + b"--\r\n")
    assert ENVELOPE + DELIMITER + b"\r\n" in payload


@pytest.mark.spec("MC-MQSRM 2.2.2/7", "MC-MQSRM 2.2.2/10")
@given(st.binary(max_size=300), st.binary(max_size=50), st.integers(0, 0xFFFF))
def test_what_is_written_is_read(body: bytes, extension: bytes, number: int) -> None:
    kind, payload = write_parts(ENVELOPE, body, extension, guid=GUID, number=number)
    assert contents(read_parts(kind, payload)) == (ENVELOPE, body, extension)


def test_the_boundary_is_not_in_the_body() -> None:
    kind, payload = write_parts(ENVELOPE, DELIMITER * 3, guid=GUID, number=5)
    assert "boundary, 6" in kind
    assert contents(read_parts(kind, payload)) == (ENVELOPE, DELIMITER * 3, b"")


def test_a_body_full_of_boundaries_still_gets_through() -> None:
    body = b"".join(b"--MSMQ - SOAP boundary, %d" % number for number in range(5, 99))
    kind, payload = write_parts(ENVELOPE, body, guid=GUID, number=5)
    assert read_parts(kind, payload).body == body


@pytest.mark.spec("MC-MQSRM 2.2.2/8")
def test_a_standard_multipart_is_read() -> None:
    """As a library for mail makes it: no lengths, angle brackets around identifiers."""
    payload = (
        b"--xx\r\nContent-Type: text/xml\r\n\r\n<se:Envelope/>\r\n"
        b"--xx\r\nContent-Type: text/plain\r\nContent-ID: <body@x>\r\n\r\n"
        b"\r\nhello\r\n\r\n--xx--\r\n"
    )
    found = read_parts("multipart/related; boundary=xx", payload)
    assert contents(found) == (ENVELOPE, b"\r\nhello\r\n", b"")
    assert (found.body_id, found.body_content_type) == ("body@x", "text/plain")


def test_a_standard_parser_reads_the_standard_form() -> None:
    payload = joined(XML_PART, part(b"First Message"), crlf=b"\r\n")
    mail: EmailMessage = BytesParser().parsebytes(
        f"Content-Type: {KIND}\r\n\r\n".encode() + payload
    )
    attached = mail.get_payload()
    assert isinstance(attached, list)
    assert len(attached) == 2


def test_a_part_without_octets_and_without_length_is_empty() -> None:
    payload = b"--xx\r\nContent-Type: text/xml\r\n\r\n<a/>\r\n--xx\r\nA: b\r\n\r\n\r\n--xx--\r\n"
    assert read_parts("multipart/related; boundary=xx", payload).body == b""


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"x",
        DELIMITER,
        DELIMITER + b"--\r\n",
        joined(),
        b"preamble\r\n" + joined(XML_PART),
        joined(XML_PART, end=b"\r\nx"),
        joined(XML_PART, end=b"x"),
        joined(XML_PART)[:-3],
        joined(part(b"first")),
        joined(XML_PART, part(b"body", size=3)),
        joined(XML_PART, part(b"body", size=5)),
        joined(XML_PART, part(b"body", size=1 << 40)),
        joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length: x")),
        joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length: +4")),
        joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length: ")),
        joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length: 4\r\nContent-Length: 4")),
        joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length:\r\n 4")),
        joined(XML_PART, part(b"body").replace(b"\r\n", b"\n")),
        joined(XML_PART, b"no header\r\n\r\nbody"),
        joined(XML_PART, part(b"a"), part(b"b")),
        joined(XML_PART, part(b"a", "extension"), part(b"b", "extension")),
        joined(XML_PART, *[part(b"a")] * PARTS_MAX),
        joined(XML_PART, b"X: " + b"y" * 5000 + b"\r\n\r\n"),
        joined(XML_PART).replace(b"\r\nContent-Type", b" \r\nContent-Type"),
    ],
)
def test_other_payloads_are_malformed(payload: bytes) -> None:
    refused(payload)


def test_blanks_without_end_are_refused_in_one_pass() -> None:
    """With a pattern that tries every way to share out the blanks this would take minutes."""
    refused(joined(XML_PART, b"X:" + b" " * 4000 + b"\0\r\n\r\nbody"))


def test_blanks_around_a_value_do_not_count() -> None:
    payload = joined(XML_PART, part(b"body").replace(b"Length: 4", b"Length:\t 4 \t"))
    assert read_parts(KIND, payload).body == b"body"


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/soap+xml",
        "multipart/related",
        "multipart/mixed; boundary=xx",
        'multipart/related; boundary=""',
        'multipart/related; boundary="a\r\nb"',
        'multipart/related; boundary="a b "',
        f"multipart/related; boundary={'x' * 71}",
        "multipart/related; boundary=a; boundary=b",
        "multipart/related; boundary",
        "multipart/related; boundary=a b",
        "multipart/related; boundary=é",
        f"multipart/related; boundary=a; x={'y' * 2000}",
        f"text/xml; x={'y' * 2000}",
    ],
)
def test_other_content_types_are_malformed(kind: str) -> None:
    refused(joined(XML_PART), kind)


@pytest.mark.parametrize(
    "kind",
    [
        'Multipart/Related;boundary="MSMQ - SOAP boundary, 5";type=text/xml',
        'multipart/related; type="text/xml" ; BOUNDARY="MSMQ - SOAP boundary, 5" ',
        'multipart/related; boundary="MSMQ - SOAP\\ boundary, 5"',
    ],
)
def test_parameters_of_the_content_type_may_be_spelled_otherwise(kind: str) -> None:
    assert read_parts(kind, joined(XML_PART, part(b"x"))).body == b"x"


def test_what_strangers_make_up_is_not_kept_at_length() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1_100):
        with suppress(MalformedPacket):
            read_parts(f"text/xml; x{number}={'y' * 15_000}", b"")
        long = b"X-Long: %d%s\r\n" % (number, b"y" * 3_900) + part(b"x")
        assert read_parts(KIND, joined(XML_PART, long)).body == b"x"
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1 << 20


@given(st.data())
def test_any_damage_gives_parts_or_the_proper_error(data: st.DataObject) -> None:
    _, kind, payload, _ = example(data.draw(st.sampled_from(EXAMPLES)))
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed)))
        end = at + data.draw(st.integers(0, 40))
        changed[at:end] = data.draw(st.binary(max_size=12) | st.just(b"\r\n"))
    with suppress(MalformedPacket):
        found = read_parts(kind, bytes(changed))
        assert found.payload[found.body_at :].startswith(found.body)


@given(st.text(max_size=80), st.binary(max_size=80))
def test_any_content_type_gives_parts_or_the_proper_error(kind: str, payload: bytes) -> None:
    for text in (kind, f"multipart/related; boundary={kind}", f"multipart/related; {kind}"):
        with suppress(MalformedPacket):
            read_parts(text, payload)


# -- payloads of one sender, one after the other


def outcome(read: Callable[[str, bytes], Parts], kind: str, payload: bytes) -> Parts | str:
    try:
        return read(kind, payload)
    except MalformedPacket as error:
        return str(error)


def primed(payload: bytes) -> PartsReader:
    reader = PartsReader()
    reader.read(KIND, payload)
    return reader


FRAMED = joined(XML_PART, part(b"0123456789"))


def test_a_payload_with_the_same_frame_is_cut_in_the_same_places() -> None:
    other = joined(XML_PART.replace(ENVELOPE, b"<se:Envelope>?"), part(b"abcdefghij"))
    assert primed(FRAMED).read(KIND, other) == read_parts(KIND, other)


@pytest.mark.parametrize("new", [b"0", b"1", b"-", b"\r", b"x"])
def test_any_other_byte_in_the_frame_is_read_as_if_it_came_first(new: bytes) -> None:
    for at in range(len(FRAMED)):
        for payload in (FRAMED[:at] + new + FRAMED[at + 1 :], FRAMED[:at] + new + FRAMED[at:]):
            found = outcome(primed(FRAMED).read, KIND, payload)
            assert found == outcome(read_parts, KIND, payload), at


@pytest.mark.parametrize(
    "payload",
    [
        FRAMED[:-1],
        FRAMED + b"\r\n",
        joined(XML_PART),
        joined(XML_PART, part(b"0123456789", "extension")),
        joined(XML_PART, part(b"0123456789"), part(b"0123456789", "extension")),
        joined(XML_PART, part(b"0123456789"), crlf=b"\r\n"),
    ],
)
def test_another_frame_is_read_as_if_it_came_first(payload: bytes) -> None:
    assert outcome(primed(FRAMED).read, KIND, payload) == outcome(read_parts, KIND, payload)


def test_a_part_without_a_length_is_never_remembered() -> None:
    """Where it ends depends on what is in it."""
    headless = b"Content-Type: text/xml\r\n\r\n"
    first = joined(XML_PART, headless + b"0123456789", crlf=b"\r\n")
    inner = b"ab\r\n" + DELIMITER + b"--"
    longer = joined(XML_PART, headless + b"0" * len(inner), crlf=b"\r\n")
    second = joined(XML_PART, headless + inner, crlf=b"\r\n")
    for one in (first, longer):
        found = outcome(primed(one).read, KIND, second)
        assert found == outcome(read_parts, KIND, second)


def test_another_content_type_is_another_payload() -> None:
    found = outcome(primed(FRAMED).read, KIND.replace("5", "6"), FRAMED)
    assert found == outcome(read_parts, KIND.replace("5", "6"), FRAMED)
    assert "delimiter" in str(found)


def test_a_long_frame_is_not_kept() -> None:
    reader = primed(joined(XML_PART, b"X-A: " + b"a" * FRAME_SIZE_MAX + b"\r\n" + part(b"1")))
    assert reader._frame is None
