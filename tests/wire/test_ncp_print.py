"""The print record of the 152-byte area (qms-facts 2.8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import Truncated
from posthouse.wire.ncp_print import (
    PrintFlags,
    PrintRecord,
    pack_print_record,
    unpack_print_record,
)

RECORD = PrintRecord(
    copies=2,
    flags=PrintFlags.of(print_banner=1, text_mode=1),
    lines=66,
    columns=132,
    form_name="LETTER",
    banner_name="ALICE",
    banner_file="REPORT",
    header_file="REPORT.TXT",
    path="SYS:HOME/ALICE",
)


@pytest.mark.spec("NCP print record/1", "QMS Submitting/2", "QMS Table 27/10")
def test_numbers_are_big_endian_and_names_at_their_offsets() -> None:
    packed = pack_print_record(RECORD)
    assert len(packed) == 152
    assert packed[:10].hex() == "0008000200c000420084"
    assert packed[10:26] == b"LETTER".ljust(16, b"\0")
    assert packed[26:32] == bytes(6)
    assert packed[32:45] == b"ALICE".ljust(13, b"\0")
    assert packed[45:58] == b"REPORT".ljust(13, b"\0")
    assert packed[58:72] == b"REPORT.TXT".ljust(14, b"\0")
    assert packed[72:] == b"SYS:HOME/ALICE".ljust(80, b"\0")
    assert unpack_print_record(packed) == RECORD


@pytest.mark.spec("NCP print record/2")
def test_flags_have_their_bits() -> None:
    bits = {
        "print_banner": 0x80,
        "text_mode": 0x40,
        "delete_file": 0x20,
        "notify_user": 0x10,
        "suppress_form_feed": 0x08,
        "keep_on": 0x04,
    }
    for name, bit in bits.items():
        assert PrintFlags.of(**{name: 1}) == bit


@pytest.mark.spec("QMS Submitting/2")
def test_a_print_job_has_defaults() -> None:
    assert unpack_print_record(pack_print_record(PrintRecord())) == PrintRecord()


@given(st.binary(max_size=160))
def test_any_bytes_are_a_record_or_truncated(data: bytes) -> None:
    try:
        record = unpack_print_record(data)
    except Truncated:
        assert len(data) < 152
    else:
        assert unpack_print_record(pack_print_record(record)) == record
