"""Submitting Jobs to Queues, and the fields of the job structure (Tables 25 and 26)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.errors import InvalidParameter
from posthouse.model.qms import (
    ANY_SERVER,
    AT_ONCE,
    NWCF_ENTRY_OPEN,
    NWCF_OPERATOR_HOLD,
    NWCF_SERVICE_AUTO_START,
    NWCF_SERVICE_RESTART,
    NWCF_USER_HOLD,
    NWQueueJobStruct,
    job_file_name,
    pack_target_time,
    pack_time,
    unpack_time,
)
from tests.engine.job_rig import JobRig
from tests.engine.rig import START_UTC

LATER = pack_time(START_UTC + 3600)


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


def lies(**true: Any) -> NWQueueJobStruct:
    """A structure in which everything that is QMS's to fill is made up."""
    return NWQueueJobStruct(
        client_station=77,
        client_task=78,
        client_id=79,
        job_entry_time=b"\1\2\3\4\5\6",
        job_number=80,
        job_position=81,
        job_file_name="EVIL",
        job_file_handle=82,
        servicing_server_station=83,
        servicing_server_task_number=84,
        servicing_server_id_number=85,
        next_record=86,
        **true,
    )


# -- what is filled in by whom


@pytest.mark.spec("QMS Table 25/4", "QMS Managing 2/1", "QMS Managing 2/2", "QMS clientID/1")
@pytest.mark.spec("QMS clientStation/1", "QMS clientTask/1", "QMS jobEntryTime/1")
@pytest.mark.spec("QMS jobFileName/1", "QMS Table 26/5", "QMS servicingServerIDNumber/1")
def test_qms_fills_every_field_that_is_not_the_applications(rig: JobRig) -> None:
    rig.submit()
    anna = rig.user("ANNA")
    anna.task = 7
    rig.manager.jobs.utc_offset_s = lambda utc: 7200
    asked = lies(job_control_flags=0)
    made = rig.jobs("create_queue_file", anna, rig.q, asked)
    assert (made.client_station, made.client_task) == (anna.number, 7)
    assert made.client_id == anna.object_id
    assert made.job_entry_time == pack_time(START_UTC + 7200)
    assert (made.job_number, made.job_position, made.next_record) == (2, 2, 0)
    assert made.job_file_name == job_file_name(rig.q, 2) == f"Q${rig.q & 0xFFFF:04X}.002"
    assert len(made.job_file_name) <= 13
    assert made.job_file_handle in anna.handles
    assert made.servicing_server_station == made.servicing_server_task_number == 0
    assert made.servicing_server_id_number == 0
    assert made.job_control_flags == NWCF_ENTRY_OPEN
    assert rig.entry(1).next_record == 2


@pytest.mark.spec("QMS Managing 1/1", "QMS Why Use QMS/1", "QMS queueRecord/1", "QMS jobType/1")
@pytest.mark.spec("QMS jobDescription/1", "QMS jobType/2")
@given(
    target=st.integers(0, ANY_SERVER),
    when=st.binary(min_size=6, max_size=6),
    kind=st.integers(0, 0xFFFF),
    flags=st.integers(0, 0xFF),
    description=st.binary(max_size=49),
    record=st.binary(max_size=152),
)
def test_what_the_application_gave_is_read_back(
    target: int, when: bytes, kind: int, flags: int, description: bytes, record: bytes
) -> None:
    rig = SHARED[0]
    asked = NWQueueJobStruct(target, when, kind, flags, description, record)
    made = rig.jobs("create_queue_file", rig.user("ANNA"), rig.q, asked)
    read = rig.entry(made.job_number)
    assert (read.target_server_id, read.target_execution_time) == (target, when)
    assert read.job_type == kind
    kept = NWCF_SERVICE_AUTO_START | NWCF_SERVICE_RESTART | NWCF_USER_HOLD
    assert read.job_control_flags == flags & kept | NWCF_ENTRY_OPEN
    assert read.job_description == description.ljust(50, b"\0")
    assert read.queue_record == record.ljust(152, b"\0")
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, made.job_number)


SHARED = [JobRig()]


@pytest.mark.spec("QMS jobControlFlags/1")
def test_bits_that_mean_nothing_are_ignored(rig: JobRig) -> None:
    number = rig.submit(job_control_flags=0x07 | NWCF_SERVICE_RESTART)
    assert rig.entry(number).job_control_flags == NWCF_SERVICE_RESTART


@pytest.mark.spec("NCP 0x79/4", "QMS Table 26/8")
def test_only_operators_submit_jobs_on_operator_hold(rig: JobRig) -> None:
    held = NWCF_OPERATOR_HOLD | NWCF_USER_HOLD
    assert (
        rig.open_job(job_control_flags=held).job_control_flags == NWCF_USER_HOLD | NWCF_ENTRY_OPEN
    )
    rig.bindery("add_object_to_set", rig.super, 0x0A, "JOBS", "Q_USERS", 1, "OTTO")
    made = rig.open_job("OTTO", job_control_flags=held)
    assert made.job_control_flags == held | NWCF_ENTRY_OPEN


def test_a_description_ends_within_its_fifty_bytes(rig: JobRig) -> None:
    made = rig.open_job(job_description=b"x" * 50)
    assert made.job_description == b"x" * 49 + b"\0"
    assert made.description == "x" * 49
    assert NWQueueJobStruct(job_description=b"a\x1b[1m\xff\0b").description == "a?[1m??"[:-1]


def test_fields_that_no_structure_could_carry_are_refused(rig: JobRig) -> None:
    number = rig.submit()
    for wrong in (
        {"target_server_id": 1 << 32},
        {"target_server_id": -1},
        {"job_type": 1 << 16},
        {"target_execution_time": b"12345"},
        {"job_description": b"x" * 51},
        {"queue_record": b"x" * 153},
    ):
        job = NWQueueJobStruct(**wrong, job_number=number)
        with rig.completion(0x7E):
            rig.jobs("create_queue_file", rig.user("ANNA"), rig.q, job)
        with rig.completion(0x7E):
            rig.jobs("change_queue_job_entry", rig.user("ANNA"), rig.q, job)


# -- numbers


@pytest.mark.spec("QMS jobNumber/1", "QMS Files/6")
def test_numbers_are_given_in_turn_and_stay_with_their_jobs(rig: JobRig) -> None:
    assert [rig.submit() for _ in range(3)] == [1, 2, 3]
    rig.jobs("change_queue_job_position", rig.user("OTTO"), rig.q, 3, 1)
    assert rig.numbers() == [3, 1, 2]
    assert [rig.entry(n).job_number for n in (1, 2, 3)] == [1, 2, 3]
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, 3)
    rig.restart()
    assert rig.submit() == 4  # the one before was given, whatever became of it


@pytest.mark.spec("QMS jobNumber/2")
def test_numbers_wrap_behind_999_and_skip_those_in_use(rig: JobRig) -> None:
    held = rig.submit(job_control_flags=NWCF_USER_HOLD)
    rig.submit()
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, 2)
    rig.manager.jobs.queues[rig.q].last_number = 997
    assert held == 1
    assert [rig.submit() for _ in range(4)] == [998, 999, 2, 3]
    assert rig.numbers() == [1, 998, 999, 2, 3]


@pytest.mark.spec("NCP job numbers/2", "NCP 0x79/2")
def test_a_queue_holds_250_jobs_and_the_limit_is_a_setting() -> None:
    assert QmsSettings().jobs_max == 250
    rig = JobRig(qms=QmsSettings(jobs_max=3))
    opened = rig.open_job()
    for _ in range(2):
        rig.submit()
    with rig.completion(0xD4):
        rig.jobs("create_queue_file", rig.user("ANNA"), rig.q, NWQueueJobStruct())
    with rig.completion(0xD4):
        rig.jobs("submit_job", rig.user("ANNA"), rig.q, NWQueueJobStruct(), b"")
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, opened.job_number)
    rig.submit()


def test_above_250_numbers_go_on_to_65535() -> None:
    """Decision 98."""
    rig = JobRig(qms=QmsSettings(jobs_max=251))
    rig.manager.jobs.queues[rig.q].last_number = 999
    assert rig.submit() == 1000
    assert rig.entry(1000).job_file_name.endswith(".1000")
    rig.manager.jobs.queues[rig.q].last_number = 65_534
    assert [rig.submit() for _ in range(2)] == [65_535, 1]
    assert len(job_file_name(rig.q, 65_535)) <= 13


@pytest.mark.spec("NCP 0x79/3")
def test_without_room_on_the_disk_no_job_comes_in(rig: JobRig) -> None:
    opened = rig.open_job()
    rig.run(lambda m: m.machine.begin_flow_control("memory"))
    with rig.completion(0x99):
        rig.jobs("create_queue_file", rig.user("ANNA"), rig.q, NWQueueJobStruct())
    with rig.completion(0x01):
        rig.jobs("write_file", rig.user("ANNA"), opened.job_file_handle, 0, b"x")
    rig.run(lambda m: m.machine.end_flow_control("memory"))
    rig.jobs("write_file", rig.user("ANNA"), opened.job_file_handle, 0, b"x")


# -- create, write, start


@pytest.mark.spec("QMS Submitting/3", "QMS Submitting/4", "NCP 0x7F/1", "QMS jobFileHandle/1")
def test_submission_runs_create_write_start(rig: JobRig) -> None:
    anna = rig.user("ANNA")
    rig.attach()
    job = rig.open_job()
    rig.jobs("write_file", anna, job.job_file_handle, 0, b"some data")
    with rig.completion(0xD5):
        rig.service()  # it is open
    rig.jobs("close_file_and_start_queue_job", anna, rig.q, job.job_number)
    assert not rig.entry(job.job_number).job_control_flags & NWCF_ENTRY_OPEN
    for call in (
        ("write_file", anna, job.job_file_handle, 0, b"more"),
        ("file_size", anna, job.job_file_handle),
        ("close_file", anna, job.job_file_handle),
    ):
        with rig.completion(0x88):
            rig.jobs(*call)
    taken = rig.service()
    data = rig.jobs("read_file", rig.server("SRV1"), taken.job_file_handle, 0, 100)
    assert data == b"some data"


@pytest.mark.spec("NCP 0x7F/2", "NCP 0x7F/3")
def test_only_the_connection_that_created_a_job_starts_it(rig: JobRig) -> None:
    job, anna = rig.open_job(), rig.user("ANNA")
    again = rig.station()
    rig.bindery("enter", again, rig.admin, 1, "ANNA")
    for station in (again, rig.user("BERT"), rig.user("OTTO"), rig.server("SRV1"), rig.super):
        with rig.completion(0xD6):
            rig.jobs("close_file_and_start_queue_job", station, rig.q, job.job_number)
    rig.jobs("close_file_and_start_queue_job", anna, rig.q, job.job_number)
    with rig.completion(0xD6):
        rig.jobs("close_file_and_start_queue_job", anna, rig.q, job.job_number)
    with rig.completion(0xD5):
        rig.jobs("close_file_and_start_queue_job", anna, rig.q, 99)


@pytest.mark.spec("QMS Submitting/5")
def test_an_aborted_submission_leaves_nothing(rig: JobRig) -> None:
    job = rig.open_job()
    rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, 0, b"x" * 100)
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, job.job_number)
    assert rig.numbers() == []
    with rig.completion(0x88):
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, 0, b"x")
    rig.check()


def test_a_job_is_submitted_whole_in_one_record(rig: JobRig) -> None:
    rig.submit()  # counters reserve their blocks
    before = len(rig.store.log)
    job = rig.jobs(
        "submit_job", rig.user("ANNA"), rig.q, NWQueueJobStruct(job_type=3), b"d" * 3_000_000
    )
    kinds = [kind for kind, *_ in rig.store.log[before:]]
    assert kinds == [1, 1, 1, 2]  # three pieces of data, and one change that says all of it
    assert (job.job_number, job.job_control_flags, job.job_type) == (2, 0, 3)
    assert rig.jobs("get_queue_job_size", rig.user("ANNA"), rig.q, 2).size == 3_000_000
    small = JobRig(qms=QmsSettings(file_max=10))
    with small.completion(0x01):
        small.jobs("submit_job", small.user("ANNA"), small.q, NWQueueJobStruct(), bytes(11))


# -- Table 26


@pytest.mark.spec("QMS Table 26/1", "NCP lost connections/1")
@pytest.mark.parametrize("data", [b"", b"written"])
def test_auto_start_releases_an_open_job_whose_connection_breaks(rig: JobRig, data: bytes) -> None:
    job = rig.open_job(job_control_flags=NWCF_SERVICE_AUTO_START)
    if data:
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, 0, data)
    rig.lose(rig.user("ANNA"))
    assert rig.entry(1, "BERT").job_control_flags == NWCF_SERVICE_AUTO_START
    rig.attach()
    taken = rig.service()
    assert rig.jobs("read_file", rig.server("SRV1"), taken.job_file_handle, 0, 99) == data


@pytest.mark.spec("QMS Table 26/2", "NCP lost connections/1", "NCP session/7")
@pytest.mark.parametrize("data", [b"", b"written"])
@pytest.mark.parametrize("how", ["lost", "logout"])
def test_without_auto_start_an_open_job_goes_with_its_connection(
    rig: JobRig, data: bytes, how: str
) -> None:
    job, anna = rig.open_job(), rig.user("ANNA")
    if data:
        rig.jobs("write_file", anna, job.job_file_handle, 0, data)
    started = rig.submit()  # what is released stays
    if how == "lost":
        rig.lose(anna)
    else:
        rig.run(lambda m: m.stations.logout(anna))
    assert rig.numbers() == [started]
    assert rig.outcomes() == {1: "abandoned"}
    rig.check()


@pytest.mark.spec("NCP lost connections/3")
def test_jobs_survive_a_start_and_open_ones_follow_auto_start(rig: JobRig) -> None:
    ready = rig.submit(b"ready")
    kept = rig.open_job(job_control_flags=NWCF_SERVICE_AUTO_START)
    lost = rig.open_job()
    rig.jobs("write_file", rig.user("ANNA"), kept.job_file_handle, 0, b"kept")
    rig.restart()
    assert rig.numbers() == [ready, kept.job_number]
    assert rig.outcomes() == {lost.job_number: "abandoned"}
    rig.check()
    rig.attach()
    for expected in (b"ready", b"kept"):
        job = rig.service()
        assert rig.jobs("read_file", rig.server("SRV1"), job.job_file_handle, 0, 9) == expected


@pytest.mark.spec("QMS Table 26/6", "QMS Table 26/7", "QMS Managing 4/5", "QMS jobPosition/1")
@pytest.mark.parametrize("hold", [NWCF_USER_HOLD, NWCF_OPERATOR_HOLD])
def test_held_jobs_advance_and_are_not_serviced(rig: JobRig, hold: int) -> None:
    first, held, third = rig.submit(), rig.submit(), rig.submit()
    job = rig.entry(held)._replace(job_control_flags=hold)
    rig.jobs("change_queue_job_entry", rig.user("OTTO"), rig.q, job)
    rig.attach()
    assert rig.service().job_number == first
    rig.finish(first)
    assert rig.entry(held).job_position == 1
    assert rig.service().job_number == third
    with rig.completion(0xD5):
        rig.service()
    rig.jobs("change_queue_job_entry", rig.user("OTTO"), rig.q, job._replace(job_control_flags=0))
    assert rig.service().job_number == held


@pytest.mark.spec("QMS Managing 4/5")
def test_open_and_held_jobs_are_passed_over(rig: JobRig) -> None:
    opened = rig.open_job().job_number
    user, operator = rig.submit(job_control_flags=NWCF_USER_HOLD), rig.submit()
    job = rig.entry(operator)._replace(job_control_flags=NWCF_OPERATOR_HOLD)
    rig.jobs("change_queue_job_entry", rig.user("OTTO"), rig.q, job)
    free = rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    rig.attach()
    assert rig.numbers() == [opened, user, operator, free]
    assert rig.service().job_number == free
    with rig.completion(0xD5):
        rig.service()
    rig.restart()
    rig.attach()
    assert rig.service().job_number == free  # what the changed entry says is kept
    rig.jobs("change_queue_job_entry", rig.user("OTTO"), rig.q, job._replace(job_control_flags=0))
    assert rig.service().job_number == operator


@pytest.mark.spec("QMS Table 26/8", "NCP 0x7B/3")
def test_owners_and_operators_hold_but_only_operators_hold_as_such(rig: JobRig) -> None:
    number = rig.submit()

    def flags(who: str, value: int) -> int:
        job = rig.entry(number)._replace(job_control_flags=value)
        rig.jobs("change_queue_job_entry", rig.user(who), rig.q, job)
        return rig.entry(number).job_control_flags

    assert flags("ANNA", NWCF_USER_HOLD | NWCF_OPERATOR_HOLD) == NWCF_USER_HOLD
    assert flags("OTTO", NWCF_OPERATOR_HOLD) == NWCF_OPERATOR_HOLD
    assert flags("ANNA", 0) == NWCF_OPERATOR_HOLD  # she cannot clear it either
    assert flags("ANNA", NWCF_ENTRY_OPEN | 0x07) == NWCF_OPERATOR_HOLD
    assert flags("OTTO", NWCF_USER_HOLD) == NWCF_USER_HOLD
    assert flags("ANNA", NWCF_SERVICE_RESTART) == NWCF_SERVICE_RESTART


@pytest.mark.spec("QMS Table 26/9")
def test_releasing_clears_entry_open_whatever_holds_there_are(rig: JobRig) -> None:
    number = rig.submit(job_control_flags=NWCF_USER_HOLD)
    assert rig.entry(number).job_control_flags == NWCF_USER_HOLD


# -- times


@pytest.mark.spec("QMS targetExecutionTime/3", "QMS targetExecutionTime/4")
@given(st.integers(315532800, 3471292799))  # 1980 to 2079
def test_times_come_back_with_two_digit_years(second: int) -> None:
    packed = pack_time(second)
    assert unpack_time(packed) == second
    assert packed[0] < 100


@pytest.mark.spec("QMS targetExecutionTime/4", "QMS targetExecutionTime/5")
@pytest.mark.spec("QMS targetExecutionTime/2", "QMS targetExecutionTime/6")
def test_years_hour_24_and_what_is_no_date() -> None:
    assert pack_time(0) == bytes((70, 1, 1, 0, 0, 0))
    assert unpack_time(bytes((126, 11, 16, 1, 2, 3))) == unpack_time(bytes((26, 11, 16, 1, 2, 3)))
    assert unpack_time(bytes((99, 12, 31, 24, 0, 0))) == unpack_time(bytes((0, 1, 1, 0, 0, 0)))
    for wrong in (
        AT_ONCE,
        bytes((255, 1, 1, 1, 1, 1)),
        bytes((180, 1, 1, 0, 0, 0)),
        bytes((26, 0, 1, 0, 0, 0)),
        bytes((26, 13, 1, 0, 0, 0)),
        bytes((26, 2, 30, 0, 0, 0)),
        bytes((26, 1, 1, 24, 0, 1)),
        bytes((26, 1, 1, 25, 0, 0)),
        bytes((26, 1, 1, 0, 60, 0)),
        b"",
    ):
        assert unpack_time(wrong) is None


@pytest.mark.parametrize("year", [1979, 2080, 2100, 9999, 1])
def test_no_job_waits_for_a_year_that_two_digits_make_another(year: int) -> None:
    with pytest.raises(InvalidParameter, match=f"year {year}"):
        pack_target_time(datetime(year, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "moment", [datetime(1980, 1, 1, tzinfo=UTC), datetime(2079, 12, 31, 23, 59, 59, tzinfo=UTC)]
)
def test_the_first_and_the_last_moment_that_a_job_can_wait_for(moment: datetime) -> None:
    second = unpack_time(pack_target_time(moment))
    assert second == int(moment.timestamp())


@given(st.binary(min_size=6, max_size=6))
def test_any_six_bytes_are_a_time_or_at_once(packed: bytes) -> None:
    second = unpack_time(packed)
    if second is not None and packed[3] < 24:
        assert unpack_time(pack_time(second)) in (second, second - 3155760000, second - 3155673600)


# -- changing


@pytest.mark.spec("QMS NWQueueJobStruct/1", "QMS Managing 3/1", "QMS Managing 3/2")
@pytest.mark.spec("QMS Managing 3/3", "QMS Q_OPERATORS/2", "QMS Creating Queues/7")
@pytest.mark.parametrize("who", ["ANNA", "OTTO"])
def test_owner_and_operator_change_how_a_job_is_processed_and_nothing_else(
    rig: JobRig, who: str
) -> None:
    rig.submit()
    number = rig.submit()
    before = rig.entry(number)
    server = rig.server("SRV1").object_id
    asked = lies(
        target_server_id=server,
        target_execution_time=LATER,
        job_type=9,
        job_control_flags=NWCF_SERVICE_RESTART,
        job_description=b"new",
        queue_record=b"record",
    )._replace(job_number=number, job_position=1)
    rig.jobs("change_queue_job_entry", rig.user(who), rig.q, asked)
    rig.restart()
    after = rig.entry(number)
    assert after[:4] == (server, LATER, 9, NWCF_SERVICE_RESTART)
    assert after.job_description.rstrip(b"\0") == b"new"
    assert after.queue_record.rstrip(b"\0") == b"record"
    assert after[6:] == before[6:]  # what QMS has filled in
    rig.attach()
    assert rig.service().job_number == 1  # in front of it as before
    with rig.completion(0xD5):
        rig.service()
    rig.advance(3600)
    assert rig.service(types=[9]).job_number == number


@pytest.mark.spec("NCP 0x7B/1", "NCP 0x7A/1")
def test_a_change_finds_its_job_by_the_number_inside(rig: JobRig) -> None:
    rig.submit()
    second = rig.submit()
    job = NWQueueJobStruct(job_number=second, job_type=4)
    rig.jobs("change_queue_job_entry", rig.user("ANNA"), rig.q, job)
    assert [rig.entry(n).job_type for n in (1, 2)] == [0, 4]
    with rig.completion(0xD5):
        rig.jobs("change_queue_job_entry", rig.user("ANNA"), rig.q, job._replace(job_number=9))
    with rig.completion(0xD5):
        rig.jobs("read_queue_job_entry", rig.user("ANNA"), rig.q, 9)


@pytest.mark.spec("NCP 0x7B/2", "QMS Table 27/3")
def test_a_job_in_service_is_changed_by_its_server_only(rig: JobRig) -> None:
    """Decision 97."""
    number = rig.submit()
    rig.attach("SRV1")
    rig.attach("SRV2")
    taken = rig.service("SRV1")
    job = taken._replace(job_description=b"half done")
    for who in ("ANNA", "OTTO"):
        with rig.completion(0xD7):
            rig.jobs("change_queue_job_entry", rig.user(who), rig.q, job)
    for station in (rig.user("BERT"), rig.server("SRV2"), rig.super):
        with rig.completion(0xD6):
            rig.jobs("change_queue_job_entry", station, rig.q, job)
    rig.jobs("change_queue_job_entry", rig.server("SRV1"), rig.q, job)
    assert rig.entry(number).description == "half done"
    assert rig.entry(number).servicing_server_id_number == rig.server("SRV1").object_id
    rig.finish(number)


# -- positions


@pytest.mark.spec("QMS jobPosition/2", "QMS Queues and the Bindery/1")
def test_positions_close_up_when_a_job_leaves(rig: JobRig) -> None:
    numbers = [rig.submit() for _ in range(4)]
    rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, numbers[1])
    assert [(n, rig.entry(n).job_position) for n in rig.numbers()] == [(1, 1), (3, 2), (4, 3)]
    rig.attach()
    for number in (1, 3, 4):
        assert rig.service().job_number == number


@pytest.mark.spec("NCP 0x82/1", "NCP 0x82/2", "QMS Table 27/5", "NCP 0x6E/2")
def test_operators_move_jobs_to_any_position(rig: JobRig) -> None:
    for _ in range(5):
        rig.submit()
    move = ("change_queue_job_position", rig.user("OTTO"), rig.q)
    for number, position, expected in (
        (5, 1, [5, 1, 2, 3, 4]),
        (5, 3, [1, 2, 5, 3, 4]),
        (1, 99, [2, 5, 3, 4, 1]),
        (3, 0, [3, 2, 5, 4, 1]),
        (3, 1, [3, 2, 5, 4, 1]),
        (4, 4, [3, 2, 5, 4, 1]),
        (3, 5, [2, 5, 4, 1, 3]),
    ):
        rig.jobs(*move, number, position)
        assert rig.numbers() == expected
    rig.restart()
    assert rig.numbers() == [2, 5, 4, 1, 3]
    for station in (rig.user("ANNA"), rig.user("BERT"), rig.server("SRV1"), rig.super):
        with rig.completion(0xD6):
            rig.jobs("change_queue_job_position", station, rig.q, 5, 1)
    with rig.completion(0xD5):
        rig.jobs("change_queue_job_position", rig.user("OTTO"), rig.q, 9, 1)


@pytest.mark.spec("NCP 0x82/1")
def test_a_job_in_service_keeps_being_serviced_when_it_moves(rig: JobRig) -> None:
    rig.submit()
    rig.submit()
    rig.attach()
    taken = rig.service()
    rig.jobs("change_queue_job_position", rig.user("OTTO"), rig.q, taken.job_number, 2)
    assert rig.numbers() == [2, 1]
    assert rig.entry(1).servicing_server_id_number == rig.server("SRV1").object_id
    assert rig.jobs("read_file", rig.server("SRV1"), taken.job_file_handle, 0, 9) == b"data"
    rig.finish(1)


# -- lists


@pytest.mark.spec("NCP 0x81/1", "NCP 0x81/2", "NCP 0x89/1", "NCP 0x6B/1")
def test_lists_are_in_queue_order_from_any_position(rig: JobRig) -> None:
    for kind in (1, 2, 1, 3):
        rig.submit(job_type=kind)
    rig.jobs("change_queue_job_position", rig.user("OTTO"), rig.q, 4, 1)
    job_list = ("get_queue_job_list", rig.user("ANNA"), rig.q)
    for start in (0, 1, 0xFFFFFFFF):
        assert rig.jobs(*job_list, start) == (4, (4, 1, 2, 3))
    assert rig.jobs(*job_list, 2, 2) == (4, (1, 2))
    assert rig.jobs(*job_list, 5) == (4, ())
    assert rig.jobs(*job_list, 1, 10, [1, 3]) == (3, (4, 1, 3))
    assert rig.jobs(*job_list, 2, 1, [1]) == (2, (3,))
    assert rig.jobs(*job_list, 1, 10, [0xFFFF]) == (4, (4, 1, 2, 3))
    read = ("read_queue_job_entry", rig.user("ANNA"), rig.q)
    entries = [rig.jobs(*read, number) for number in (1, 2)]
    assert [(e.job_number, e.job_position, e.next_record) for e in entries] == [
        (1, 2, 2),
        (2, 3, 3),
    ]


# -- removing and moving to another queue


@pytest.mark.spec("NCP 0x80/1", "QMS Monitoring/1", "QMS Creating Queues/6")
def test_a_removed_job_ends_its_service_and_its_handles(rig: JobRig) -> None:
    number = rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    server = rig.attach()
    taken = rig.service()
    rig.jobs("change_to_client_rights", server, rig.q, number)
    rig.jobs("remove_job_from_queue", rig.user("OTTO"), rig.q, number)
    with rig.completion(0x88):
        rig.jobs("read_file", server, taken.job_file_handle, 0, 1)
    with rig.completion(0xD5):
        rig.finish(number)
    with rig.completion(0xD9):
        rig.jobs("restore_queue_server_rights", server)
    with rig.completion(0xD5):
        rig.jobs("remove_job_from_queue", rig.user("OTTO"), rig.q, number)
    assert rig.outcomes() == {number: "removed"}
    rig.check()


@pytest.mark.spec("NCP 0x88/1")
def test_operators_of_both_queues_or_owners_move_jobs_between_queues(rig: JobRig) -> None:
    other = rig.create_jobs("OTHER")
    rig.submit(queue=other)
    number = rig.submit(b"content", job_type=5)
    for station in (rig.user("BERT"), rig.user("EVA"), rig.server("SRV1"), rig.super):
        with rig.completion(0xD6):
            rig.jobs("move_queue_job", station, rig.q, number, other)
    new = rig.jobs("move_queue_job", rig.user("ANNA"), rig.q, number, other)
    assert (new, rig.numbers(), rig.numbers(other)) == (2, [], [1, 2])
    rig.restart()
    moved = rig.jobs("read_queue_job_entry", rig.user("ANNA"), other, new)
    assert (moved.job_number, moved.job_position, moved.job_type) == (2, 2, 5)
    assert moved.job_file_name == job_file_name(other, 2)
    assert rig.jobs("get_queue_job_size", rig.user("ANNA"), other, new).size == 7
    assert rig.jobs("move_queue_job", rig.user("OTTO"), other, 2, rig.q) == 2
    rig.bindery("delete_object_from_set", rig.super, 0x0A, "OTHER", "Q_USERS", 1, "ANNA")
    rig.bindery("delete_object_from_set", rig.super, 0x0A, "OTHER", "Q_OPERATORS", 1, "OTTO")
    for who in ("ANNA", "OTTO"):
        with rig.completion(0xD6):
            rig.jobs("move_queue_job", rig.user(who), rig.q, 2, other)
    rig.check()


def test_jobs_that_are_in_use_or_find_no_room_are_not_moved(rig: JobRig) -> None:
    other = rig.create_jobs("OTHER")
    opened = rig.open_job()
    number = rig.submit()
    rig.attach()
    move = ("move_queue_job", rig.user("ANNA"), rig.q)
    with rig.completion(0xD7):
        rig.jobs(*move, opened.job_number, other)
    rig.jobs("set_queue_current_status", rig.user("OTTO"), other, 1)
    with rig.completion(0xDA):
        rig.jobs(*move, number, other)
    with rig.completion(0xD5):
        rig.jobs(*move, 99, other)
    rig.service()
    with rig.completion(0xD7):
        rig.jobs(*move, number, other)


def test_what_is_known_beside_the_structure(rig: JobRig) -> None:
    number = rig.submit(b"12345")
    server = rig.attach()
    details = rig.jobs("details", rig.user("ANNA"), rig.q, number)
    assert (details.size, details.attempts, details.begun) == (5, 0, 0)
    rig.service()
    rig.jobs("report_progress", server, rig.q, number, 3, 10, "three of ten")
    details = rig.jobs("details", rig.user("ANNA"), rig.q, number)
    assert (details.attempts, details.begun) == (1, START_UTC)
    assert details.progress == (3, 10, "three of ten")
    with rig.completion(0xD9):
        rig.jobs("report_progress", rig.user("ANNA"), rig.q, number, 1, 1)
    with rig.completion(0xD3):
        rig.jobs("details", rig.user("EVA"), rig.q, number)


def test_history_is_bounded_and_for_those_who_see_the_queue() -> None:
    rig = JobRig(qms=QmsSettings(history_max=3))
    for _ in range(5):
        rig.submit(job_description=b"thing")
        rig.jobs("remove_job_from_queue", rig.user("ANNA"), rig.q, rig.numbers()[0])
    rows = rig.jobs("ended_jobs", rig.user("ANNA"), rig.q)
    assert [row.number for row in rows] == [3, 4, 5]
    assert (rows[0].client, rows[0].queue, rows[0].description) == ("ANNA", "JOBS", "thing")
    assert rig.jobs("ended_jobs", rig.super, None, after=rows[0].serial, count=1) == rows[1:2]
    for station in (rig.user("EVA"), rig.station()):
        with rig.completion(0xD3):
            rig.jobs("ended_jobs", station, rig.q)
    with rig.completion(0xD3):
        rig.jobs("ended_jobs", rig.user("ANNA"))
    for name, seen in (("ANNA", rows), ("OTTO", rows), ("EVA", [])):
        assert rig.jobs("ended_jobs_in_sight", rig.user(name), 0, 9) == seen
    after = rows[0].serial
    assert rig.jobs("ended_jobs_in_sight", rig.user("ANNA"), after, 1) == rows[1:2]
    rig.restart()
    assert rig.jobs("ended_jobs", rig.user("ANNA"), rig.q) == rows
    assert rig.manager.jobs.history.find(rows[2].serial) == rows[2]
    assert rig.manager.jobs.history.find(999) is None
