"""QUEUE_FORMAT and the names of queues: there and back, and what remote read does not take."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.model.names import (
    DirectName,
    FormatName,
    MachineName,
    PrivateName,
    PublicName,
    Suffix,
    parse_format_name,
)
from posthouse.protocols.queue_format import (
    DlId,
    MulticastId,
    ObjectId,
    QueueFormat,
    QueueFormatPart,
    name_of,
    queue_format_of,
)
from posthouse.rpc.ndr import BadStub, Reader, Writer

GUID = bytes(range(16))
PART = QueueFormatPart()

TAKEN = [
    (PublicName(GUID), QueueFormat(1, 0x00, GUID)),
    (PublicName(GUID, Suffix.JOURNAL), QueueFormat(1, 0x81, GUID)),
    (PrivateName(GUID, 0xFFFFFFFF), QueueFormat(2, 0x00, ObjectId(GUID, 0xFFFFFFFF))),
    (PrivateName(GUID, 13, Suffix.JOURNAL), QueueFormat(2, 0x81, ObjectId(GUID, 13))),
    (MachineName(GUID, Suffix.JOURNAL), QueueFormat(4, 0x81, GUID)),
    (MachineName(GUID, Suffix.DEADLETTER), QueueFormat(4, 0x82, GUID)),
    (MachineName(GUID, Suffix.DEADXACT), QueueFormat(4, 0x83, GUID)),
    ("DIRECT=OS:host\\private$\\q", QueueFormat(3, 0x00, "OS:host\\private$\\q")),
    ("DIRECT=TCP:10.0.0.1\\q", QueueFormat(3, 0x00, "TCP:10.0.0.1\\q")),
    ("DIRECT=OS:h\\private$\\ö", QueueFormat(3, 0x00, "OS:h\\private$\\ö")),
    ("DIRECT=OS:h\\q;journal", QueueFormat(3, 0x81, "OS:h\\q;journal")),
    ("DIRECT=OS:h\\system$;deadletter", QueueFormat(3, 0x82, "OS:h\\system$;deadletter")),
    ("DIRECT=OS:h\\system$;deadxact", QueueFormat(3, 0x83, "OS:h\\system$;deadxact")),
    ("DIRECT=OS:h\\private$\\q;sub", QueueFormat(8, 0x05, "OS:h\\private$\\q;sub")),
]


def as_name(name: FormatName | str) -> FormatName:
    return parse_format_name(name) if isinstance(name, str) else name


@pytest.mark.spec("MS-MQRR 2.2.3/1", "MS-MQRR 3.1.4.2/3", "MS-MQRR 3.1.4.11/1")
@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_a_name_of_a_queue_goes_there_and_back(name: FormatName | str, value: QueueFormat) -> None:
    assert queue_format_of(as_name(name)) == value
    assert name_of(value) == as_name(name)


OTHER_SPELLINGS = [
    # The suffix stands in m_SuffixAndFlags alone, in the text alone, or in letters of another case.
    (QueueFormat(3, 0x81, "OS:h\\private$\\q"), "DIRECT=OS:h\\private$\\q;journal"),
    (QueueFormat(3, 0x00, "OS:h\\private$\\q;JOURNAL"), "DIRECT=OS:h\\private$\\q;journal"),
    (QueueFormat(3, 0x82, "OS:h\\SYSTEM$;DeadLetter"), "DIRECT=OS:h\\system$;deadletter"),
    (QueueFormat(3, 0x83, "OS:h\\system$"), "DIRECT=OS:h\\system$;deadxact"),
    # The flag says nothing that the suffix does not say.
    (QueueFormat(3, 0x01, "OS:h\\q"), "DIRECT=OS:h\\q;journal"),
    (QueueFormat(3, 0x80, "OS:h\\q"), "DIRECT=OS:h\\q"),
    (QueueFormat(8, 0x00, "OS:h\\q;sub"), "DIRECT=OS:h\\q;sub"),
    (QueueFormat(3, 0x00, "os:H\\PRIVATE$\\q"), "DIRECT=OS:H\\private$\\q"),
]


@pytest.mark.parametrize(("value", "text"), OTHER_SPELLINGS)
def test_what_means_the_same_is_taken(value: QueueFormat, text: str) -> None:
    assert str(name_of(value)) == text


REFUSED = [
    QueueFormat(0),
    QueueFormat(3, 0, None),
    QueueFormat(8, 5, None),
    QueueFormat(5, 0, GUID),
    QueueFormat(5, 4, GUID),
    QueueFormat(6, 0, DlId(GUID, None)),
    QueueFormat(6, 0, DlId(GUID, "example.com")),
    QueueFormat(7, 0, MulticastId(0xE0000001, 1801)),
    QueueFormat(3, 0, ""),
    QueueFormat(3, 0, "OS:h"),
    QueueFormat(3, 0, "DIRECT=OS:h\\q"),
    QueueFormat(3, 0, "OS:h\\q\0"),
    QueueFormat(3, 0, "OS:h\\\ud800"),
    QueueFormat(3, 0, "OS:h\\" + "q" * 1000),
    # The suffix is none of this kind of name, or of any.
    QueueFormat(1, 2, GUID),
    QueueFormat(2, 3, ObjectId(GUID, 1)),
    QueueFormat(4, 0, GUID),
    QueueFormat(4, 5, GUID),
    QueueFormat(3, 0x82, "OS:h\\q"),
    QueueFormat(3, 4, "OS:h\\q"),
    QueueFormat(3, 0x81, "OS:h\\system$;deadletter"),
    QueueFormat(3, 0x06, "OS:h\\q"),
    QueueFormat(3, 0x0F, "OS:h\\q"),
    QueueFormat(3, 0x10, "OS:h\\q"),
    QueueFormat(1, 0x41, GUID),
    # The type says subqueue, or does not, and the text says otherwise.
    QueueFormat(3, 0x00, "OS:h\\q;sub"),
    QueueFormat(3, 0x05, "OS:h\\q;sub"),
    QueueFormat(3, 0x05, "OS:h\\q"),
    QueueFormat(8, 0x05, "OS:h\\q"),
    QueueFormat(8, 0x81, "OS:h\\q;sub"),
]


@pytest.mark.spec(
    "MS-MQRR 2.2.3/2", "MS-MQRR 3.1.4.2/3", "MS-MQRR 3.1.4.2/21", "MS-MQRR 3.1.4.11/1"
)
@pytest.mark.parametrize("value", REFUSED)
def test_what_names_no_readable_queue_is_an_invalid_parameter(value: QueueFormat) -> None:
    with pytest.raises(InvalidParameter) as caught:
        name_of(value)
    assert caught.value.code == 0xC00E0006


@pytest.mark.spec("MS-MQRR 2.2.3/3")
@pytest.mark.parametrize(
    "text",
    [
        "HTTP://host/msmq/q",
        "HTTPS://host/msmq/private$/q",
        "SPX:00000012.00a0234f7500\\q",
        "IPX:00000012:00a0234f7500\\q",
        "NCP:host\\q",
    ],
)
def test_direct_names_of_other_address_kinds_are_invalid(text: str) -> None:
    with pytest.raises(InvalidParameter):
        name_of(QueueFormat(3, 0, text))


def test_a_list_of_names_cannot_be_passed() -> None:
    with pytest.raises(InvalidParameter):
        queue_format_of(parse_format_name("DIRECT=OS:h\\q,DIRECT=OS:h\\r"))


def test_names_for_senders_can_be_passed_for_a_server_to_refuse() -> None:
    connector = parse_format_name("CONNECTOR=00112233-4455-6677-8899-aabbccddeeff;xactonly")
    listed = parse_format_name("DL=00112233-4455-6677-8899-aabbccddeeff@example.com")
    group = parse_format_name("MULTICAST=239.0.0.1:1801")
    assert queue_format_of(connector).type == 5
    assert queue_format_of(connector).suffix_and_flags == 4
    assert queue_format_of(listed).arm == DlId(listed.guid, "example.com")  # type: ignore[union-attr]
    alone = parse_format_name("DL=00112233-4455-6677-8899-aabbccddeeff")
    assert queue_format_of(alone).arm == DlId(listed.guid, None)  # type: ignore[union-attr]
    assert queue_format_of(group).arm == MulticastId(0xEF000001, 1801)


# Arms of the union that no golden request carries; C706 14.3.8, [MS-RPCE] 2.2.5.3.
GUID_HEX = GUID.hex()
ARMS = [
    (QueueFormat(5, 4, GUID), False, f"0504 0000 05 000000 {GUID_HEX}"),
    (QueueFormat(7, 0, MulticastId(1, 2)), False, "0700 0000 07 000000 01000000 02000000"),
    (QueueFormat(6, 0, DlId(GUID, None)), False, f"0600 0000 06 000000 {GUID_HEX} 00000000"),
    (
        QueueFormat(6, 0, DlId(GUID, "d")),
        False,
        f"0600 0000 06 000000 {GUID_HEX} 00000200 02000000 00000000 02000000 64000000",
    ),
    (
        QueueFormat(7, 0, MulticastId(1, 2)),
        True,
        "0700 0000 00000000 07 00000000000000 01000000 02000000",
    ),
    (
        QueueFormat(6, 0, DlId(GUID, "d")),
        True,
        f"0600 0000 00000000 06 00000000000000 {GUID_HEX} 0000020000000000"
        "0200000000000000 0000000000000000 0200000000000000 64000000",
    ),
]


@pytest.mark.spec("RPC/5", "RPC/6")
@pytest.mark.parametrize(("value", "ndr64", "text"), ARMS)
def test_arms_for_senders_are_read_too(value: QueueFormat, ndr64: bool, text: str) -> None:
    raw = bytes.fromhex(text)
    assert PART.read(Reader(raw, ndr64=ndr64)) == value
    writer = Writer(ndr64=ndr64)
    PART.write(writer, value)
    assert writer.buffer == raw


TEXT = st.none() | st.text(st.characters(), max_size=40)
GUIDS = st.binary(min_size=16, max_size=16)
U32 = st.integers(0, 0xFFFFFFFF)
FORMATS = st.one_of(
    st.builds(QueueFormat, st.just(0), st.integers(0, 255), st.none()),
    st.builds(QueueFormat, st.sampled_from([1, 4, 5]), st.integers(0, 255), GUIDS),
    st.builds(QueueFormat, st.just(2), st.integers(0, 255), st.builds(ObjectId, GUIDS, U32)),
    st.builds(QueueFormat, st.sampled_from([3, 8]), st.integers(0, 255), TEXT),
    st.builds(QueueFormat, st.just(6), st.integers(0, 255), st.builds(DlId, GUIDS, TEXT)),
    st.builds(QueueFormat, st.just(7), st.integers(0, 255), st.builds(MulticastId, U32, U32)),
)


@given(FORMATS, st.booleans(), st.integers(0, 9))
def test_any_queue_format_comes_back_from_anywhere(
    value: QueueFormat, ndr64: bool, before: int
) -> None:
    writer = Writer(ndr64=ndr64)
    writer.put(b"\xff" * before)
    PART.write(writer, value)
    writer.u8(0x5A)
    reader = Reader(bytes(writer.buffer), ndr64=ndr64, at=before)
    assert PART.read(reader) == value
    assert reader.u8() == 0x5A
    reader.end()


@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_a_queue_format_or_refused(data: bytes, ndr64: bool) -> None:
    with contextlib.suppress(BadStub):
        assert isinstance(PART.read(Reader(data, ndr64=ndr64)), QueueFormat)


@given(FORMATS)
def test_any_queue_format_names_a_readable_queue_or_is_invalid(value: QueueFormat) -> None:
    with contextlib.suppress(InvalidParameter):
        name: Any = name_of(value)
        assert isinstance(name, DirectName | PublicName | PrivateName | MachineName)
        assert name_of(queue_format_of(name)) == name
