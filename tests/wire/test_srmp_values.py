"""[MC-MQSRM] 2.2.1: the common data types, and texts made of them."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import format_guid
from posthouse.wire.srmp.message import FOREVER
from posthouse.wire.srmp.values import (
    escape,
    is_url,
    read_correlation,
    read_date,
    read_guid,
    read_message_id,
    read_number,
    read_stream_id,
    read_u32,
    write_date,
    write_message_id,
    write_stream_id,
)
from tests.wire.srmp import GUID, GUID_TEXT, SENT, SENT_S, SEQUENCE_ID, STREAM_ID

READERS = (
    read_correlation,
    read_date,
    read_guid,
    read_message_id,
    read_number,
    read_stream_id,
    read_u32,
)


@pytest.mark.spec("MC-MQSRM 2.2.1.1/1")
def test_a_guid_string_has_36_characters_and_no_braces() -> None:
    assert read_guid(GUID_TEXT) == read_guid(GUID_TEXT.upper()) == GUID
    wrong = (f"{{{GUID_TEXT}}}", GUID_TEXT.replace("-", ""), GUID_TEXT[:-1], "", "g" * 36)
    for text in wrong:
        with pytest.raises(MalformedPacket):
            read_guid(text)


@pytest.mark.spec("MC-MQSRM 2.2.1.2/1")
def test_a_date_string_is_utc_in_fifteen_characters() -> None:
    assert read_date(SENT) == SENT_S
    assert write_date(SENT_S) == SENT
    assert len(write_date(0)) == 15
    assert read_date("20380119T031407") == FOREVER


@pytest.mark.spec("MC-MQSRM 2.2.1.2/1", "MC-MQSRM 2.2.1.2/2")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01T00:00:00",
        "20260101T000000Z",
        "20260101T000000.5",
        "20260101 000000",
        "20260101t000000",
        "20260229T000000",
        "20261301T000000",
        "20260100T000000",
        "20260101T240000",
        "20260101T006000",
        "20260101T000060",
        "00000101T000000",
        "٢٠٢٦٠١٠١T000000",
    ],
)
def test_what_is_no_date_is_malformed(text: str) -> None:
    with pytest.raises(MalformedPacket):
        read_date(text)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2038, 1, 19)))
def test_dates_go_both_ways(moment: datetime) -> None:
    seconds = int(moment.replace(tzinfo=UTC).timestamp())
    assert read_date(write_date(seconds)) == seconds


def test_what_is_beyond_2038_is_written_as_for_ever() -> None:
    assert write_date(FOREVER + 5) == "20380119T031407"


@pytest.mark.spec("MC-MQSRM 2.2.1.3/1")
@pytest.mark.parametrize("text", ["0", "1", "18446744073709551615", "007"])
def test_numbers_have_64_bits(text: str) -> None:
    assert read_number(text) == int(text)


@pytest.mark.spec("MC-MQSRM 2.2.1.3/1")
@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "0x1", "1.0", "1 2", "18446744073709551616", "٣", "9" * 5000]
)
def test_other_text_is_no_number(text: str) -> None:
    with pytest.raises(MalformedPacket):
        read_number(text)


def test_a_number_of_33_bits_has_no_place_in_a_message() -> None:
    assert read_u32("4294967295") == 0xFFFF_FFFF
    with pytest.raises(MalformedPacket):
        read_u32("4294967296")


@pytest.mark.spec("MC-MQSRM 2.2.4.3/3")
def test_an_id_is_a_number_and_a_guid() -> None:
    text = f"uuid:20503@{GUID_TEXT}"
    assert read_message_id(text) == (GUID, 20503)
    assert write_message_id(GUID, 20503) == text
    for wrong in (
        text[5:],
        text.replace("@", "#"),
        text[:-1],
        text + "0",
        f"uuid:@{GUID_TEXT}",
        f"uuid:-1@{GUID_TEXT}",
        f"uuid:4294967296@{GUID_TEXT}",
        f"uid:1@{GUID_TEXT}",
    ):
        with pytest.raises(MalformedPacket):
            read_message_id(wrong)


@pytest.mark.spec("MC-MQSRM 2.2.5.3.1/1", "MC-MQSRM 2.2.5.3.1/2")
def test_a_stream_id_is_a_guid_and_the_combined_number() -> None:
    assert read_stream_id(STREAM_ID) == (STREAM_ID, GUID, SEQUENCE_ID)
    assert SEQUENCE_ID == 0x432B164300000006
    assert write_stream_id(GUID, 0x432B1643 << 32 | 6) == STREAM_ID
    for wrong in (
        STREAM_ID[4:],
        STREAM_ID.replace("\\", "/"),
        f"uid:{GUID_TEXT}",
        f"uid:{GUID_TEXT}\\",
        f"uuid:{GUID_TEXT}\\1",
        f"uid:{GUID_TEXT}\\18446744073709551616",
    ):
        with pytest.raises(MalformedPacket):
            read_stream_id(wrong)


@pytest.mark.spec("MC-MQSRM 2.2.6.5/2")
def test_a_correlation_is_base64_of_twenty_octets() -> None:
    assert read_correlation("AAAAAAAAAAAAAAAAAAAAAAEAAAA=") == bytes(16) + b"\1\0\0\0"
    for wrong in ("", "AAAA", "A" * 27, "A" * 28, "A" * 31, "*" * 28, "ÄÄÄÄ"):
        with pytest.raises(MalformedPacket):
            read_correlation(wrong)


def test_urls_are_known_by_their_scheme() -> None:
    assert all(map(is_url, ("http://a", "https://a", "HTTP://a", "httpS://a")))
    assert not any(
        map(is_url, ("", "http:/a", "ftp://a", "MSMQ:MULTICAST=234.1.1.1:1", "xhttp://"))
    )


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/25")
@given(st.text())
def test_any_text_survives_as_element_content(text: str) -> None:
    """But for characters that XML cannot carry in any way."""
    found = ElementTree.fromstring(f"<a>{escape(text)}</a>").text or ""
    assert len(found) == len(text)
    assert all(one in (other, "\ufffd") for one, other in zip(found, text, strict=True))


def test_what_xml_can_carry_is_carried() -> None:
    text = "a\tb\nc\rd <&>\"' ]]> é \U0001f600"
    assert ElementTree.fromstring(f"<a>{escape(text)}</a>").text == text


@given(st.text(max_size=60) | st.from_regex(r"(uuid|uid):\d*[@\\]?[0-9a-f-]*"))
def test_any_text_gives_a_value_or_the_proper_error(text: str) -> None:
    for reader in READERS:
        try:
            reader(text)
        except MalformedPacket:
            continue


@given(st.binary(min_size=16, max_size=16), st.integers(0, 0xFFFF_FFFF))
def test_ids_go_both_ways(guid: bytes, ordinal: int) -> None:
    assert read_message_id(write_message_id(guid, ordinal)) == (guid, ordinal)
    assert read_guid(format_guid(guid)) == guid
