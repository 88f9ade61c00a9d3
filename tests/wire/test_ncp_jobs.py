"""The job structures of old and new calls, field by field (qms-facts 2.1, 2.2, 2.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import Truncated
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.layout import Reader
from posthouse.wire.ncp.jobs import (
    HANDLE,
    NEW_JOB,
    NEW_REPLY,
    OLD_JOB,
    OLD_REPLY,
)

JOB = NWQueueJobStruct(
    next_record=0x0203,
    client_station=0x04050607,
    client_task=0x08,
    client_id=0x11121314,
    target_server_id=0x21222324,
    target_execution_time=bytes(range(0x30, 0x36)),
    job_entry_time=bytes(range(0x40, 0x46)),
    job_number=0x0102,
    job_type=0x5152,
    job_position=3,
    job_control_flags=0x38,
    job_file_name="Q$5D03.258",
    job_file_handle=0x0A0B0C0D,
    servicing_server_station=0x61626364,
    servicing_server_task_number=0x65,
    servicing_server_id_number=0x71727374,
    job_description=b"a job".ljust(50, b"\0"),
    queue_record=bytes(range(152)),
)
NEW_FIELDS = {  # offset: bytes, as the table of 2.1 has them
    0: "ffff",
    2: "00000000",
    6: "03020000",
    10: "07060504",
    14: "08000000",
    18: "11121314",
    22: "21222324",
    26: "303132333435",
    32: "404142434445",
    38: "02010000",
    42: "5152",
    44: "0300",
    46: "3800",
    48: "0a" + b"Q$5D03.258".hex() + "000000",
    62: "0d0c0b0a",
    66: "64636261",
    70: "65000000",
    74: "71727374",
    78: b"a job".ljust(50, b"\0").hex(),
    128: bytes(range(152)).hex(),
}
OLD_FIELDS = {  # as 2.2 has them
    0: "07",
    1: "08",
    2: "11121314",
    6: "21222324",
    10: "303132333435",
    16: "404142434445",
    22: "0102",
    24: "5152",
    26: "03",
    27: "38",
    28: "0a" + b"Q$5D03.258".hex() + "000000",
    42: "0e0c" + "0d0c0b0a",
    48: "64",
    49: "65",
    50: "71727374",
    54: b"a job".ljust(50, b"\0").hex(),
    104: bytes(range(152)).hex(),
}


@pytest.mark.spec("NCP job numbers/1", clause="new calls")
@pytest.mark.spec(
    "NCP job structure/1",
    "NCP job structure/2",
    "NCP job structure/3",
    "NCP job structure/4",
    "NCP job structure/5",
)
def test_the_new_structure_has_each_field_at_its_offset_in_its_order() -> None:
    packed = NEW_JOB.write(JOB)
    assert len(packed) == 280
    ends = [*list(NEW_FIELDS)[1:], 280]
    for (at, field), end in zip(NEW_FIELDS.items(), ends, strict=True):
        assert packed[at:end].hex() == field, at
    assert NEW_JOB.read(Reader(packed)) == JOB


@pytest.mark.spec("NCP job numbers/1", clause="old calls")
@pytest.mark.spec(
    "NCP job structure/6",
    "QMS Table 25/1",
    "QMS Table 25/2",
    "QMS Table 25/3",
    "QMS clientStation/2",
)
def test_the_old_structure_has_each_field_at_its_offset_in_its_order() -> None:
    packed = OLD_JOB.write(JOB)
    assert len(packed) == 256
    ends = [*list(OLD_FIELDS)[1:], 256]
    for (at, field), end in zip(OLD_FIELDS.items(), ends, strict=True):
        assert packed[at:end].hex() == field, at
    seen = OLD_JOB.read(Reader(packed))
    # Stations above 255 do not fit: their low byte stands there.
    assert seen == JOB._replace(next_record=0, client_station=0x07, servicing_server_station=0x64)


@pytest.mark.spec("NCP job structure/1", "NCP job structure/6")
def test_the_reply_forms_are_the_first_78_and_54_bytes() -> None:
    assert NEW_REPLY.write(JOB) == NEW_JOB.write(JOB)[:78]
    assert OLD_REPLY.write(JOB) == OLD_JOB.write(JOB)[:54]
    shown = NEW_REPLY.read(Reader(NEW_REPLY.write(JOB)))
    assert shown == JOB._replace(job_description=bytes(50), queue_record=bytes(152))


@pytest.mark.spec("NCP fn 0x42/2")
@pytest.mark.parametrize("front", ["0000", "0e0c", "ffff"])
def test_a_handle_is_known_by_its_last_four_bytes(front: str) -> None:
    assert HANDLE.read(Reader(bytes.fromhex(front + "0d0c0b0a"))) == 0x0A0B0C0D


@pytest.mark.spec("QMS jobFileName/1")
def test_a_file_name_is_its_length_and_thirteen_characters() -> None:
    packed = bytearray(NEW_JOB.write(JOB._replace(job_file_name="ABCDEFGHIJKLMNOP")))
    assert packed[48:62] == b"\x0dABCDEFGHIJKLM"
    packed[48] = 0xFF
    assert NEW_JOB.read(Reader(bytes(packed))).job_file_name == "ABCDEFGHIJKLM"


def test_positions_above_255_are_the_last_that_old_calls_see() -> None:
    assert OLD_JOB.write(JOB._replace(job_position=8000))[26] == 255


@given(st.binary(max_size=300))
def test_any_bytes_are_a_structure_or_truncated(data: bytes) -> None:
    for kind, size in ((NEW_JOB, 280), (OLD_JOB, 256)):
        try:
            job = kind.read(Reader(data))
        except Truncated:
            assert len(data) < size
        else:
            assert kind.read(Reader(kind.write(job))) == job
