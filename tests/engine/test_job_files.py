"""Job files: any bytes anywhere, durable, and gone with their jobs (qms-facts 1.5)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.jobs.file_content import PAGE_CHUNKS, JobFile
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.records import PURGED
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import JOB_FILES
from posthouse.model.errors import QueueError
from posthouse.model.guids import format_guid
from tests.engine.cost import steps
from tests.engine.job_rig import JobRig
from tests.engine.rig import PEEK, RECEIVE, SEND

writes = st.lists(st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=30)), max_size=40)


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


def chunks(rig: JobRig) -> int:
    return rig.manager.ledger.queues[JOB_FILES].state.count


@pytest.mark.spec("QMS Files/10", "QMS Files/8", "NCP fn 0x48/3")
@settings(max_examples=40)
@given(written=writes, restart=st.booleans(), start=st.integers(0, 99), count=st.integers(0, 99))
def test_bytes_come_back_as_written_over_each_other_with_zeros_between(
    written: list[tuple[int, bytes]], restart: bool, start: int, count: int
) -> None:
    rig = JobRig()
    expected = bytearray()
    job = rig.open_job(job_control_flags=0x08)
    for offset, data in written:
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, offset, data)
        expected.extend(bytes(max(0, offset + len(data) - len(expected))))
        expected[offset : offset + len(data)] = data
    assert rig.jobs("file_size", rig.user("ANNA"), job.job_file_handle) == len(expected)
    if restart:
        rig.restart()
    else:
        rig.jobs("close_file_and_start_queue_job", rig.user("ANNA"), rig.q, job.job_number)
    rig.attach()
    taken = rig.service()
    read = ("read_file", rig.server("SRV1"), taken.job_file_handle)
    assert rig.jobs(*read, 0, 1000) == expected
    assert rig.jobs(*read, start, count) == expected[start : start + count]
    rig.check()
    rig.finish(1)
    assert chunks(rig) == 0
    rig.check()


sizes = st.sampled_from([1, 1, 1, 7, 100, 1023, 1024, 1025, 9000, 20_000])


@settings(max_examples=30)
@given(
    st.lists(st.tuples(sizes, st.sampled_from([0, 0, 0, 0, 0, 1, -1])), min_size=20, max_size=60)
)
def test_small_writes_behind_each_other_are_gathered(written: list[tuple[int, int]]) -> None:
    """With holes and overlaps between them: the same bytes, also after a restart."""
    rig = JobRig()
    expected, offset = bytearray(), 0
    job = rig.open_job(job_control_flags=0x08)
    for at, (size, jump) in enumerate(written * 2):
        offset = max(0, offset + jump)
        data = bytes([1 + at % 255]) * size
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, offset, data)
        expected.extend(bytes(max(0, offset + size - len(expected))))
        expected[offset : offset + size] = data
        offset += size
    rig.check()
    rig.restart()
    rig.attach()
    taken = rig.service()
    handle = rig.server("SRV1"), taken.job_file_handle
    assert rig.jobs("read_file", *handle, 0, 4 << 20) == expected
    rig.check()
    rig.finish(1)
    assert chunks(rig) == 0


@pytest.mark.parametrize(
    ("size", "count", "most"),
    [(1, 3000, 2 * 15 + 1), (1024, 200, 15 + 200 // 16), (16 << 10, 40, 40)],
)
def test_a_file_in_small_writes_has_few_messages(
    rig: JobRig, size: int, count: int, most: int
) -> None:
    """One for each 16 KiB at least, beside fifteen of each size class."""
    job = rig.open_job()
    for at in range(count):
        data = bytes([at % 256]) * size
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, at * size, data)
        assert chunks(rig) <= most
    assert rig.jobs("file_size", rig.user("ANNA"), job.job_file_handle) == count * size
    rig.check()


def test_a_file_has_so_many_pieces_at_most() -> None:
    """Whoever leaves holes on purpose must not fill the memory of the queue manager."""
    rig = JobRig(qms=QmsSettings(file_max=16 << 10))
    job = rig.open_job()
    write = partial(rig.jobs, "write_file", rig.user("ANNA"), job.job_file_handle)
    for at in range(1024 + 2):
        write(2 * at, b"x")
    with rig.completion(0x01):
        write(5000, b"x")
    assert chunks(rig) == 1024 + 2
    rig.check()


def test_what_is_damaged_is_not_gathered(rig: JobRig) -> None:
    """The write is taken; the damage shows where it is read."""
    job = rig.open_job()
    write = partial(rig.jobs, "write_file", rig.user("ANNA"), job.job_file_handle)
    for at in range(15):
        write(at, b"x")

    def read_many(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        raise Unreadable("bad checksum")

    reading = rig.manager.messages.reading
    sound, reading._read_many = reading._read_many, read_many
    write(15, b"x")
    assert chunks(rig) == 16
    reading._read_many = sound
    file = rig.manager.jobs.queues[rig.q].by_number[job.job_number].file
    given_up = list(file.chunks)[3]

    def give_up(manager: QueueManager) -> None:
        row = manager.messages.find_row(given_up)
        assert row is not None
        manager.ledger.end(given_up, row, PURGED)

    rig.run(give_up)
    write(16, b"x")
    assert len(file.chunks) == 17


@given(writes)
def test_extents_are_in_order_disjoint_and_count_what_shows(
    written: list[tuple[int, bytes]],
) -> None:
    file = JobFile()
    for number, (offset, data) in enumerate(written, 1):
        for hidden in file.add(number, offset, len(data), file.open_page()):
            file.forget(hidden)
        extents = file.within(0, 1000)
        assert all(a.end <= b.start for a, b in pairwise(extents))
        shown: dict[int, int] = {}
        for extent in extents:
            shown[extent.number] = shown.get(extent.number, 0) + extent.end - extent.start
        assert shown == {n: chunk.shown for n, chunk in file.chunks.items()}
        assert sorted(file.chunks) == sorted(n for page in file.pages.values() for n in page)
        assert all(len(page) <= PAGE_CHUNKS for page in file.pages.values())


def test_what_is_written_over_does_not_pile_up(rig: JobRig) -> None:
    job = rig.open_job()
    for value in range(200):
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, 0, bytes([value]) * 100)
    assert chunks(rig) == 1
    rig.check()


def written(rig: JobRig, count: int, stride: int) -> list[int]:
    """Bytes of the log that writes of ten bytes each cost."""
    job, sizes = rig.open_job(), []
    for at in range(count):
        before = len(rig.store.log)
        rig.jobs("write_file", rig.user("ANNA"), job.job_file_handle, at * stride, b"0123456789")
        sizes.append(sum(len(h) + len(p) for _, _, h, p in rig.store.log[before:]))
    return sizes


def test_one_write_costs_a_page_of_the_index_at_most(rig: JobRig) -> None:
    sizes = written(rig, 200, 11)
    assert max(sizes[100:]) <= max(sizes[:100])
    assert max(sizes) < 1500


def test_what_is_gathered_is_not_much_and_rare(rig: JobRig) -> None:
    """Up to 16 KiB are written again; all in all it costs less than pages would."""
    sizes = written(rig, 4000, 10)
    assert max(sizes) < 20_000
    assert sum(sizes) < 4000 * 1000


@pytest.mark.spec("NCP fn 0x49/2", "QMS jobFileHandle/2", "NCP fn 0x42/1", "NCP fn 0x47/1")
def test_handles_are_good_on_their_own_connection_until_they_are_closed(rig: JobRig) -> None:
    job, anna = rig.open_job(), rig.user("ANNA")
    handle = job.job_file_handle
    rig.jobs("write_file", anna, handle, 0, b"abc")
    assert rig.jobs("file_size", anna, handle) == 3
    calls: list[tuple[Any, ...]] = [
        ("write_file", handle, 0, b"x"),
        ("read_file", handle, 0, 1),
        ("file_size", handle),
        ("close_file", handle),
    ]
    again = rig.station()
    rig.bindery("enter", again, rig.admin, 1, "ANNA")
    for station in (again, rig.user("BERT"), rig.super):
        for name, *rest in calls:
            with rig.completion(0x88):
                rig.jobs(name, station, *rest)
    with rig.completion(0x93):
        rig.jobs("read_file", anna, handle, 0, 1)
    rig.jobs("close_file", anna, handle)
    for name, *rest in calls:
        with rig.completion(0x88):
            rig.jobs(name, anna, *rest)
    rig.jobs("close_file_and_start_queue_job", anna, rig.q, job.job_number)  # it is still hers


def test_a_server_reads_and_writes_while_it_services(rig: JobRig) -> None:
    rig.submit(b"question")
    server = rig.attach()
    taken = rig.service()
    rig.jobs("write_file", server, taken.job_file_handle, 8, b" answer")
    assert rig.jobs("read_file", server, taken.job_file_handle, 0, 99) == b"question answer"
    assert rig.jobs("read_file", server, taken.job_file_handle, 99, 1) == b""
    assert rig.jobs("read_file", server, taken.job_file_handle, 3, 0) == b""


@pytest.mark.spec("NCP fn 0x49/2")
def test_files_have_a_largest_size() -> None:
    rig = JobRig(qms=QmsSettings(file_max=100))
    job, anna = rig.open_job(), rig.user("ANNA")
    rig.jobs("write_file", anna, job.job_file_handle, 90, b"0123456789")
    for offset, data in ((91, b"0123456789"), (1 << 40, b"x"), (-1, b"x"), (0, bytes(101))):
        with rig.completion(0x01):
            rig.jobs("write_file", anna, job.job_file_handle, offset, data)


def test_over_the_quota_of_the_machine_no_data_is_taken() -> None:
    rig = JobRig(machine_quota_kib=10)
    job, anna = rig.open_job(), rig.user("ANNA")
    with rig.completion(0x01):
        rig.jobs("write_file", anna, job.job_file_handle, 0, bytes(10_241))
    with rig.completion(0x99):
        rig.jobs("submit_job", anna, rig.q, job, bytes(10_241))
    rig.jobs("write_file", anna, job.job_file_handle, 0, bytes(10_240))


def test_damaged_data_is_an_io_failure_of_that_job_only(rig: JobRig) -> None:
    rig.submit(b"broken")
    rig.submit(b"sound")
    server = rig.attach()
    first, second = rig.service(), rig.service()
    (number,) = rig.manager.jobs.queues[rig.q].by_number[1].file.chunks
    reading = rig.manager.messages.reading
    sound = reading._read_many

    def read_many(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        if number in numbers:
            raise Unreadable("bad checksum")
        return sound(numbers)

    reading._read_many = read_many
    with rig.completion(0xD0):
        rig.jobs("read_file", server, first.job_file_handle, 0, 9)
    assert rig.jobs("read_file", server, second.job_file_handle, 0, 9) == b"sound"
    reading._read_many = sound

    def give_up(manager: QueueManager) -> None:
        """As a repair does that could not save the record."""
        row = manager.messages.find_row(number)
        assert row is not None
        manager.ledger.end(number, row, PURGED)

    rig.run(give_up)
    with rig.completion(0xD0):
        rig.jobs("read_file", server, first.job_file_handle, 0, 9)
    rig.finish(1)


def test_nobody_sees_job_files_as_messages(rig: JobRig) -> None:
    rig.submit(b"secret")
    manager = rig.manager
    assert JOB_FILES not in [queue.number for queue in manager.queues.all()]
    assert JOB_FILES not in [queue.number for queue in manager.queues.outgoing_queues()]
    for name in (
        f"PRIVATE={format_guid(manager.machine.identifier)}\\{JOB_FILES:08x}",
        ".\\private$\\(job files)",
    ):
        for access in (RECEIVE, PEEK, SEND):
            with pytest.raises(QueueError):
                rig.open(name, access)


# -- many handles


def test_what_a_station_asks_of_a_job_does_not_cost_more_with_all_it_has_open() -> None:
    costs = []
    for count in (4, 64):
        rig = JobRig()
        first = rig.open_job().job_number
        for _ in range(count - 1):
            rig.open_job()
        last = rig.open_job()
        station = rig.user("ANNA")
        queues = rig.manager.jobs
        asked = steps(partial(queues.read_queue_job_entry, station, rig.q, last.job_number))
        start = partial(rig.jobs, "close_file_and_start_queue_job", station, rig.q, first)
        closed = steps(start)
        costs.append((asked, closed))
        assert rig.entry(last.job_number).job_file_handle == last.job_file_handle
        assert len(station.handles) == len(station.handles_to) == count
    assert costs[1][0] <= costs[0][0] + 8
    assert costs[1][1] <= costs[0][1] + 8


def test_a_station_that_is_lost_has_no_handles_any_more(rig: JobRig) -> None:
    anna = rig.user("ANNA")
    jobs = [rig.open_job() for _ in range(3)]
    rig.jobs("close_file", anna, jobs[1].job_file_handle)
    assert len(anna.handles) == len(anna.handles_to) == 2
    rig.jobs("remove_job_from_queue", anna, rig.q, jobs[0].job_number)
    assert list(anna.handles) == [jobs[2].job_file_handle]
    rig.lose(anna)
    assert not anna.handles
    assert not anna.handles_to
    rig.check()
