"""Optional headers on their own: sizes, padding, identifiers."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertyValue, MalformedPacket, RemoteProtocolError
from posthouse.model.names import ELEMENTS_MAX, DistributionListName, PublicName, parse_format_name
from posthouse.wire.layout import Reader
from posthouse.wire.packet.headers import SecurityFlags
from posthouse.wire.packet.optional_headers import (
    MultiQueue,
    Provider,
    Security,
    Soap,
    pack_debug,
    read_debug,
    read_multi_queue,
    read_security,
    read_soap,
)

from .vectors import MULTIPLE, SEALED, SOAP, TRACED, edited

QUEUE = b"\x77" * 16
READERS: list[Callable[[Reader], object]] = [
    read_security,
    read_debug,
    read_soap,
    read_multi_queue,
]


@pytest.mark.spec("MS-MQMQ 2.2.20.6/1", "MS-MQMQ 2.2.20.6/2")
def test_security_items_go_both_ways() -> None:
    security = read_security(Reader(SEALED, 68))
    assert security == Security(
        SecurityFlags(0x03B1),
        sender_id=bytes.fromhex("010100000000000507000000"),
        encryption_key=bytes.fromhex("c1c2c3c4c5"),
        signature=bytes.fromhex("d1d2d3d4d5d6"),
        sender_certificate=bytes.fromhex("e1e2e3e4e5e6e7"),
        provider=Provider(1, "CS"),
    )
    assert security.pack() == SEALED[68:132]


@pytest.mark.spec("MS-MQMQ 2.2.20.6/2")
def test_security_data_flag_is_ignored() -> None:
    clear = edited(SEALED, 68, "<H", 0x0331)
    assert read_security(Reader(clear, 68))[1:] == read_security(Reader(SEALED, 68))[1:]


@pytest.mark.spec("MS-MQMQ 2.2.20.6/2")
def test_absent_security_items_take_no_room() -> None:
    assert Security().pack() == bytes(16)
    assert read_security(Reader(bytes(16))) == Security()


@pytest.mark.spec("MS-MQMQ 2.2.20.6/5", "MS-MQDMPR 3.1.7.1.32/7")
def test_provider_size_counts_type_and_name_with_nul() -> None:
    packed = Security(provider=Provider(0x18, "ab")).pack()
    assert packed[12:16] == (4 + 6).to_bytes(4, "little")
    assert packed[16:] == bytes.fromhex("18000000 610062000000 0000")


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_provider_of_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        read_security(Reader(edited(SEALED, 80, "<I", size), 68))


@pytest.mark.spec("MS-MQMQ 2.2.20.8/1", "MS-MQDMPR 3.1.7.1.32/9")
def test_debug_header_has_a_queue_or_four_bytes() -> None:
    assert pack_debug(QUEUE) == bytes.fromhex("01000000") + QUEUE == TRACED[128:]
    assert pack_debug(bytes(16)) == bytes(4)
    assert read_debug(Reader(TRACED, 128)) == QUEUE
    assert read_debug(Reader(bytes(4))) == bytes(16)


@pytest.mark.spec("MS-MQMQ 2.2.20.7/1")
def test_soap_texts_go_both_ways() -> None:
    assert read_soap(Reader(SOAP, 128)) == Soap("<h/>", "<b />")
    assert Soap("<h/>", "<b />").pack() == SOAP[128:]


@pytest.mark.spec("MS-MQMQ 2.2.20.7/1")
@pytest.mark.parametrize("at", [128, 148])
def test_wrong_soap_section_is_refused(at: int) -> None:
    with pytest.raises(MalformedPacket):
        read_soap(Reader(edited(SOAP, at, "<H", 0x0321), 128))


@pytest.mark.spec("MS-MQMQ 2.2.20.1/1", "MS-MQMQ 2.2.20.2/1", "MS-MQMQ 2.2.20.3/1")
def test_lists_of_queues_go_both_ways() -> None:
    lists = MultiQueue(
        destination=(
            parse_format_name(r"DIRECT=OS:h\q"),
            parse_format_name("PUBLIC=a3a2a1a0-a5a4-a7a6-a8a9-aaabacadaeaf"),
            parse_format_name(r"PRIVATE=33333333-3333-3333-3333-333333333333\12"),
            parse_format_name(r"DIRECT=OS:ab\q"),
            DistributionListName(bytes(range(0xB0, 0xC0))),
        ),
        administration=(parse_format_name(r"DIRECT=OS:hst\ad"),),
        signature=b"\x91\x92\x93",
    )
    assert read_multi_queue(Reader(MULTIPLE, 124)) == lists
    assert lists.pack() == MULTIPLE[124:]


def test_header_size_may_leave_out_the_final_padding() -> None:
    assert read_multi_queue(Reader(edited(MULTIPLE, 232, "<I", 34), 124)) == read_multi_queue(
        Reader(MULTIPLE, 124)
    )


def test_empty_lists_have_their_headers() -> None:
    raw = bytes.fromhex(
        "0c000000 6400 0000 00000000 0c000000 c800 0000 00000000"
        "0c000000 2c01 0000 00000000 5e01 0000 00000000"
    )
    assert MultiQueue().pack() == raw
    assert read_multi_queue(Reader(raw)) == MultiQueue()


@pytest.mark.spec("MS-MQMQ 2.2.20.2/1", "MS-MQMQ 2.2.20.3/1")
@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        (124, "<I", 11),
        (124, "<I", 0xFFFFFFFF),
        (124, "<I", 100),
        (128, "<H", 0x00C8),
        (132, "<I", 6),
        (132, "<I", 0xFFFFFFFF),
        (136, "<H", 9),
        (236, "<H", 0x0064),
        (280, "<H", 0x012C),
        (284, "<I", 5),
    ],
)
def test_inconsistent_lists_are_refused(at: int, layout: str, value: int) -> None:
    with pytest.raises(RemoteProtocolError):
        read_multi_queue(Reader(edited(MULTIPLE, at, layout, value), 124))


def test_lists_have_a_limit() -> None:
    names = (PublicName(QUEUE),) * ELEMENTS_MAX
    packed = MultiQueue(destination=names).pack()
    assert read_multi_queue(Reader(packed)).destination == names
    with pytest.raises(IllegalPropertyValue):
        MultiQueue(destination=(*names, PublicName(QUEUE))).pack()
    with pytest.raises(MalformedPacket):
        read_multi_queue(Reader(edited(packed, 8, "<I", ELEMENTS_MAX + 1)))


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (read_security, SEALED[68:132]),
        (read_debug, TRACED[128:]),
        (read_soap, SOAP[128:]),
        (read_multi_queue, MULTIPLE[124:]),
    ],
    ids=["security", "debug", "soap", "multi queue"],
)
def test_every_cut_of_an_optional_header_is_refused(
    read: Callable[[Reader], object], raw: bytes
) -> None:
    whole = read(Reader(raw + b"behind"))
    for size in range(len(raw)):
        try:
            assert read(Reader(raw[:size])) == whole
        except RemoteProtocolError:
            continue
        assert not any(raw[size:]), "only padding may be missing"


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_header_or_refused(read: Callable[[Reader], object], data: bytes) -> None:
    with suppress(RemoteProtocolError):
        read(Reader(data))
