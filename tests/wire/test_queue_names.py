"""Queue names of the UserHeader and of lists: every type code, both ways."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalFormatName, MalformedPacket, RemoteProtocolError
from posthouse.model.names import (
    DirectName,
    DistributionListName,
    FormatName,
    PrivateName,
    PublicName,
    parse_format_name,
)
from posthouse.wire.layout import Reader
from posthouse.wire.packet.headers import UserFlags
from posthouse.wire.packet.queue_names import (
    QueueNames,
    administration_type,
    append_element,
    destination_type,
    pack_queue_name,
    read_element,
    read_queue_names,
    response_type,
)

from .vectors import DESTINATION, SOURCE

OTHER = b"\x33" * 16
QUEUE = bytes(range(16))
DIRECT = parse_format_name(r"DIRECT=OS:host\private$\q")
NUMBER = bytes.fromhex("12000000")


def read(
    raw: bytes, destination: int = 0, administration: int = 0, response: int = 0
) -> QueueNames:
    flags = UserFlags.of(
        destination_type=destination, administration_type=administration, response_type=response
    )
    return read_queue_names(raw, flags, SOURCE, DESTINATION)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/14")
@pytest.mark.parametrize(
    ("code", "name"),
    [(0, None), (3, PrivateName(DESTINATION, 0x12)), (5, PublicName(QUEUE)), (7, DIRECT)],
)
def test_destination_goes_both_ways(code: int, name: FormatName | None) -> None:
    assert destination_type(name) == code
    raw = pack_queue_name(name, code)
    assert read(raw, destination=code).destination == name


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/15")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (2, PrivateName(SOURCE, 0x12)),
        (3, PrivateName(DESTINATION, 0x12)),
        (5, PublicName(QUEUE)),
        (6, PrivateName(OTHER, 0x12)),
        (7, DIRECT),
    ],
)
def test_administration_queue_goes_both_ways(code: int, name: FormatName | None) -> None:
    assert administration_type(name, 0, SOURCE, DESTINATION) == code
    raw = pack_queue_name(name, code)
    assert read(raw, administration=code).administration == name


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/16", "MS-MQMQ 2.2.19.2/8")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (2, PrivateName(SOURCE, 0x12)),
        (3, PrivateName(DESTINATION, 0x12)),
        (4, PrivateName(OTHER, 0x12)),
        (5, PublicName(QUEUE)),
        (6, PrivateName(QUEUE, 0x12)),
        (7, DIRECT),
    ],
)
def test_response_queue_goes_both_ways(code: int, name: FormatName | None) -> None:
    administration = PrivateName(OTHER, 1)
    assert response_type(name, 0, SOURCE, DESTINATION, administration) == code
    raw = pack_queue_name(administration, 6) + pack_queue_name(name, code)
    assert read(raw, administration=6, response=code).response == name


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/16", "MS-MQMQ 2.2.19.2/8")
def test_response_queue_may_be_the_administration_queue() -> None:
    raw = pack_queue_name(DIRECT, 7)
    assert read(raw, administration=7, response=1).response == DIRECT
    assert response_type(DIRECT, 1, SOURCE, DESTINATION, DIRECT) == 1
    assert response_type(DIRECT, 0, SOURCE, DESTINATION, DIRECT) == 7
    assert response_type(PublicName(QUEUE), 1, SOURCE, DESTINATION, DIRECT) == 5
    assert pack_queue_name(DIRECT, 1) == b""


def test_a_wanted_type_is_kept_only_if_it_says_the_same() -> None:
    here = PrivateName(SOURCE, 1)
    assert administration_type(here, 6, SOURCE, DESTINATION) == 6
    assert administration_type(here, 3, SOURCE, DESTINATION) == 2
    assert administration_type(here, 7, SOURCE, DESTINATION) == 2
    assert administration_type(here, 3, SOURCE, SOURCE) == 3


def test_host_of_a_direct_administration_queue_is_not_known() -> None:
    raw = pack_queue_name(DIRECT, 7) + NUMBER
    assert read(raw, administration=7, response=4).response == PrivateName(bytes(16), 0x12)


def test_names_come_as_texts_too() -> None:
    raw = NUMBER + pack_queue_name(DIRECT, 7)
    assert read(raw, destination=3, administration=7).texts == (
        r"PRIVATE=22222222-2222-2222-2222-222222222222\00000012",
        r"DIRECT=OS:host\private$\q",
        "",
    )


@pytest.mark.spec("MS-MQMQ 2.2.18.1.7.2/1")
def test_private_queue_elsewhere_is_a_guid_and_a_number() -> None:
    assert pack_queue_name(PrivateName(OTHER, 0x12), 6) == OTHER + NUMBER


@pytest.mark.spec("MS-MQMQ 2.2.18.1.5.2/1")
def test_direct_name_is_counted_with_its_nul_and_padded_behind() -> None:
    raw = pack_queue_name(parse_format_name(r"DIRECT=OS:a\q"), 7)
    assert raw == bytes.fromhex("0e00 4f0053003a0061005c0071000000")
    raw = pack_queue_name(parse_format_name(r"DIRECT=OS:ab\q"), 7)
    assert raw == bytes.fromhex("1000 4f0053003a00610062005c0071000000 0000")


def test_padding_of_any_value_is_skipped() -> None:
    raw = pack_queue_name(parse_format_name(r"DIRECT=OS:ab\q"), 7)[:-2] + b"\xcd\xcd" + NUMBER
    names = read(raw, destination=7, administration=2)
    assert names.administration == PrivateName(SOURCE, 0x12)


def test_a_direct_name_without_nul_is_taken_as_it_is() -> None:
    raw = bytes.fromhex("0c00 4f0053003a0061005c007100 0000")
    assert read(raw, destination=7).destination == parse_format_name(r"DIRECT=OS:a\q")


@pytest.mark.parametrize(
    "raw",
    ["0000", "0200 0000", "0300 4f0053", "0a00 580058003a0000000000", "0600 4100 0000 4200"],
    ids=["empty", "only NUL", "odd", "no protocol", "NUL inside"],
)
def test_direct_names_that_are_none_are_refused(raw: str) -> None:
    with pytest.raises(MalformedPacket):
        read(bytes.fromhex(raw).ljust(16, b"\0"), destination=7)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (r"DIRECT=OS:h\q", 5),
        (r"DIRECT=OS:h\q", 3),
        ("PUBLIC=00000000-0000-0000-0000-000000000001", 7),
        ("PUBLIC=00000000-0000-0000-0000-000000000001;journal", 5),
        (r"PRIVATE=00000000-0000-0000-0000-000000000001\1;journal", 6),
        ("MACHINE=00000000-0000-0000-0000-000000000001;deadletter", 5),
    ],
)
def test_names_without_a_place_in_packets_are_refused(text: str, code: int) -> None:
    with pytest.raises(IllegalFormatName):
        pack_queue_name(parse_format_name(text), code)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/23")
def test_a_list_is_no_destination() -> None:
    with pytest.raises(IllegalFormatName):
        destination_type(parse_format_name(r"DIRECT=OS:a\q,DIRECT=OS:b\q"))


@pytest.mark.spec("MS-MQMQ 2.2.18.1.5.1/1", "MS-MQMQ 2.2.18.1.7.1/1")
def test_private_and_public_queues_are_a_number_and_a_guid() -> None:
    assert pack_queue_name(PrivateName(DESTINATION, 0x12), 3) == bytes.fromhex("12000000")
    assert pack_queue_name(PublicName(QUEUE), 5) == QUEUE


@pytest.mark.spec("MS-MQMQ 2.2.18.1.4/1", "MS-MQMQ 2.2.18.1.4/2")
def test_list_elements_start_with_their_type_and_align_their_payload() -> None:
    buffer = bytearray()
    for name in (PublicName(QUEUE), DIRECT, PrivateName(OTHER, 5), DistributionListName(QUEUE)):
        append_element(buffer, name)
    direct = r"OS:host\private$\q".encode("utf-16-le") + b"\0\0"
    before = 20 + 2 + len(direct)
    padding = bytes(-(before + 2) % 4)
    assert bytes(buffer) == (
        b"\x01\0\0\0" + QUEUE
        + b"\x03\0" + direct
        + b"\x02\0" + padding + OTHER + b"\x05\0\0\0"
        + b"\x06\0" + bytes(-(before + len(padding) + 24) % 4) + QUEUE
    )  # fmt: skip


ELEMENTS = [DIRECT, PublicName(QUEUE), PrivateName(OTHER, 5), DistributionListName(QUEUE)]


@pytest.mark.parametrize("first", ELEMENTS, ids=lambda name: type(name).__name__)
@pytest.mark.parametrize("second", ELEMENTS, ids=lambda name: type(name).__name__)
def test_list_elements_go_both_ways_in_any_order(first: FormatName, second: FormatName) -> None:
    buffer = bytearray()
    append_element(buffer, first)
    append_element(buffer, second)
    reader = Reader(bytes(buffer))
    assert [read_element(reader), read_element(reader)] == [first, second]
    assert reader.remaining == 0


def test_subqueues_are_direct_names_in_lists() -> None:
    buffer = bytearray()
    append_element(buffer, parse_format_name(r"DIRECT=OS:h\private$\q;sub"))
    assert buffer[:2] == b"\x03\x00"
    name = read_element(Reader(bytes(buffer)))
    assert isinstance(name, DirectName)
    assert name.subqueue == "sub"


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/23")
@pytest.mark.parametrize(
    "text",
    [
        "CONNECTOR=00000000-0000-0000-0000-000000000001",
        r"DIRECT=OS:a\q,DIRECT=OS:b\q",
    ],
)
def test_names_without_a_place_in_lists_are_refused(text: str) -> None:
    with pytest.raises(IllegalFormatName):
        append_element(bytearray(), parse_format_name(text))


@pytest.mark.parametrize("format_type", [0, 4, 5, 7, 8, 0xFFFF])
def test_other_element_types_are_refused(format_type: int) -> None:
    with pytest.raises(MalformedPacket):
        read_element(Reader(format_type.to_bytes(2, "little") + bytes(40)))


@given(st.binary(max_size=80), st.integers(0, 3))
def test_any_element_is_read_or_refused(data: bytes, kind: int) -> None:
    with suppress(RemoteProtocolError):
        read_element(Reader(bytes((kind, 0)) + data))


@given(st.binary(max_size=120), *[st.sampled_from([0, 3, 5, 7])] * 3)
def test_any_names_are_read_or_refused(data: bytes, one: int, two: int, three: int) -> None:
    with suppress(RemoteProtocolError):
        read(data, one, two, three)
