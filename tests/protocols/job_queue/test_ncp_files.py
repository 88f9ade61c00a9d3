"""The file of a job over NCP (qms-facts 1.5)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp.functions import READ_FILE, WRITE_FILE, ReadFile, WriteFile
from tests.protocols.job_queue.rig import JOB_SERVER, NcpRig
from tests.protocols.job_queue.walk import Walk, line_of, refused


@pytest.mark.spec("NCP fn 0x48/1", "NCP fn 0x49/1", "QMS Files/8", "QMS Files/10")
def test_data_comes_back_as_it_was_written(walk: Walk) -> None:
    data = bytes(range(256)) * 300
    walk.submitted(data)
    job = walk.server.service_queue_job(walk.queue)
    assert walk.server.read_file(job.job_file_handle, 0, 1 << 20) == data
    assert walk.server.read_file(job.job_file_handle, 1001, 5) == data[1001:1006]


@pytest.mark.spec("NCP fn 0x48/2", "NCP fn 0x48/3")
def test_reads_tell_their_count_and_pad_at_odd_offsets(walk: Walk) -> None:
    walk.submitted(b"0123456789")
    handle = walk.server.service_queue_job(walk.queue).job_file_handle
    line = line_of(walk.server)

    def read(offset: int, size: int) -> bytes:
        return line.ask(READ_FILE, ReadFile(0, handle, offset, size))

    assert read(2, 3) == b"\0\x03234"
    assert read(3, 3) == b"\0\x03\0" + b"345"
    assert read(8, 100) == b"\0\x0289"
    assert read(10, 4) == b"\0\0"
    assert read(1000, 4)[:2] == b"\0\0"
    assert read(0, 0) == b"\0\0"


@pytest.mark.spec("NCP fn 0x47/1")
def test_the_size_grows_as_data_is_written(walk: Walk) -> None:
    job = walk.created(b"")
    assert walk.alice.file_size(job.job_file_handle) == 0
    walk.alice.write_file(job.job_file_handle, 100, b"x")
    assert walk.alice.file_size(job.job_file_handle) == 101
    refused(0x88, walk.alice.file_size, 0x7FFFFFFF)


@pytest.mark.spec("NCP fn 0x42/1")
def test_a_closed_handle_is_of_no_use(walk: Walk) -> None:
    job = walk.created()
    walk.alice.close_file(job.job_file_handle)
    refused(0x88, walk.alice.write_file, job.job_file_handle, 0, b"x")
    refused(0x88, walk.alice.close_file, job.job_file_handle)
    walk.alice.close_file_and_start_queue_job(walk.queue, job.job_number)
    assert walk.alice.get_queue_job_size(walk.queue, job.job_number) == 4


@pytest.mark.spec("NCP fn 0x42/2")
@pytest.mark.parametrize("front", [b"\0\0", b"\xff\xff"])
def test_the_first_two_bytes_of_a_handle_do_not_matter(walk: Walk, front: bytes) -> None:
    job = walk.created(b"")
    handle = front + job.job_file_handle.to_bytes(4, "little")
    data = b"\0" + handle + bytes(4) + b"\0\x02ok"
    assert line_of(walk.alice).raw(0x49, data).completion == 0
    assert walk.alice.file_size(job.job_file_handle) == 2


@pytest.mark.spec("NCP fn 0x49/2", "QMS jobFileHandle/2")
def test_handles_belong_to_their_connection(walk: Walk) -> None:
    job = walk.created()
    second = walk.rig.logged_in("ALICE")
    refused(0x88, second.write_file, job.job_file_handle, 0, b"x")
    refused(0x88, second.close_file, job.job_file_handle)
    walk.submitted()
    taken = walk.server.service_queue_job(walk.queue)
    other = walk.rig.logged_in("SERVER", JOB_SERVER)
    refused(0x88, other.read_file, taken.job_file_handle, 0, 1)


@pytest.mark.spec("NCP fn 0x49/2")
def test_a_handle_for_writing_is_not_for_reading(walk: Walk) -> None:
    job = walk.created()
    refused(0x93, walk.alice.read_file, job.job_file_handle, 0, 1)


@pytest.mark.spec("NCP fn 0x49/2")
def test_a_full_disk_is_told(walk: Walk) -> None:
    job = walk.created()
    walk.rig.store.has_room = lambda: False  # type: ignore[attr-defined, method-assign]
    refused(0x01, walk.alice.write_file, job.job_file_handle, 0, b"x")


def test_udp_reads_are_as_long_as_a_datagram(walk: Walk) -> None:
    walk.submitted(bytes(20_000))
    server = walk.rig.logged_in("SERVER", JOB_SERVER, udp=True)
    server.attach_queue_server_to_queue(walk.queue)
    handle = server.service_queue_job(walk.queue).job_file_handle
    answer = line_of(server).ask(READ_FILE, ReadFile(0, handle, 0, 0xFFFF))
    assert len(answer) == 2 + walk.rig.ncp_settings.datagram_buffer_max


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=600)), max_size=8),
    st.integers(0, 4000),
    st.integers(0, 4000),
)
def test_any_writes_leave_what_they_say(
    writes: list[tuple[int, bytes]], offset: int, size: int
) -> None:
    rig = NcpRig()
    rig.user("ALICE")
    rig.user("SERVER", JOB_SERVER)
    queue = rig.queue(users="ALICE", servers=f"SERVER/{JOB_SERVER}")
    alice, server = rig.logged_in("ALICE"), rig.logged_in("SERVER", JOB_SERVER)
    job = alice.create_queue_file(queue, NWQueueJobStruct())
    model = bytearray()
    for at, data in writes:
        line_of(alice).request(WRITE_FILE, WriteFile(0, job.job_file_handle, at, data))
        if data:
            model.extend(bytes(max(at + len(data) - len(model), 0)))
            model[at : at + len(data)] = data
    alice.close_file_and_start_queue_job(queue, job.job_number)
    server.attach_queue_server_to_queue(queue)
    handle = server.service_queue_job(queue).job_file_handle
    assert server.file_size(handle) == len(model)
    assert server.read_file(handle, 0, 10_000) == model
    assert server.read_file(handle, offset, size) == model[offset : offset + size]
