"""The print record of a job, both ways (qms-facts 2.8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import QmsError
from posthouse.model.print_jobs import (
    PF_BANNER,
    PF_DELETE_FILE,
    PF_KEEP_ON,
    PF_NO_FORM_FEED,
    PF_NOTIFY,
    PF_TEXT,
    PrintJobStruct,
    convert_print_struct_to_queue_struct,
    convert_queue_struct_to_print_struct,
)
from posthouse.model.qms import NWQueueJobStruct


def text(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=size).map(lambda value: value.replace(b"\0", b"x"))


u16 = st.integers(0, 0xFFFF)
jobs = st.builds(
    PrintJobStruct,
    copies=u16,
    print_flags=u16,
    tab_size=st.integers(0, 255),
    lines_per_page=u16,
    characters_per_line=u16,
    form_name=text(16),
    banner_name=text(13),
    banner_file=text(13),
    header_file=text(14),
    directory_path=text(80),
    form_number=u16,
    description=text(49),
    version=st.integers(0, 255),
)


@pytest.mark.spec("NCP print record/1", "NCP print record/2", "QMS Submitting/2")
def test_the_record_lies_as_real_clients_write_it() -> None:
    job = PrintJobStruct(
        copies=2,
        print_flags=PF_BANNER | PF_TEXT,
        form_name=b"form",
        banner_name=b"ANNA",
        banner_file=b"file",
        header_file=b"header",
        directory_path=b"SYS:",
        form_number=3,
        description=b"letter",
    )
    made = convert_print_struct_to_queue_struct(job, NWQueueJobStruct(job_control_flags=0x40))
    record = made.queue_record
    assert len(record) == 152
    assert record[:10].hex() == "0008000200c000420050"
    assert record[10:32] == b"form".ljust(22, b"\0")
    assert record[32:45] == b"ANNA".ljust(13, b"\0")
    assert record[45:58] == b"file".ljust(13, b"\0")
    assert record[58:72] == b"header".ljust(14, b"\0")
    assert record[72:] == b"SYS:".ljust(80, b"\0")
    assert (made.job_type, made.job_description) == (3, b"letter")
    assert made.job_control_flags == 0x40
    flags = (PF_BANNER, PF_TEXT, PF_DELETE_FILE, PF_NOTIFY, PF_NO_FORM_FEED, PF_KEEP_ON)
    assert flags == (0x80, 0x40, 0x20, 0x10, 0x08, 0x04)


@pytest.mark.spec("QMS Table 27/10", "QMS Submitting/2")
@given(jobs)
def test_a_print_job_comes_back_from_its_record(job: PrintJobStruct) -> None:
    assert convert_queue_struct_to_print_struct(convert_print_struct_to_queue_struct(job)) == job


@given(st.binary(max_size=152))
def test_any_record_is_a_print_job(record: bytes) -> None:
    job = convert_queue_struct_to_print_struct(NWQueueJobStruct(queue_record=record))
    assert 0 <= job.copies <= 0xFFFF


@pytest.mark.parametrize("wrong", [{"copies": -1}, {"tab_size": 256}, {"lines_per_page": 1 << 16}])
def test_numbers_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(QmsError) as caught:
        convert_print_struct_to_queue_struct(PrintJobStruct(**wrong))  # type: ignore[arg-type]
    assert caught.value.completion == 0x7E
