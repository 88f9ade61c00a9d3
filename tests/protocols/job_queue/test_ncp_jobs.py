"""Jobs over NCP, old and new calls: from creation to finish (qms-facts 2, 3.1, 7.1, 7.2)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import queue_calls as calls
from posthouse.wire.ncp.framing import write_subfunction
from tests.protocols.job_queue.rig import JOB_QUEUE, JOB_SERVER, NcpRig
from tests.protocols.job_queue.walk import Walk, line_of, refused


def ask(client: NcpCalls, call: Any, *asked: Any) -> Any:
    return client.link.request(call, call.request.record(*asked))


JOB = NWQueueJobStruct(
    target_server_id=0x01020304,
    target_execution_time=bytes((30, 1, 2, 3, 4, 5)),
    job_type=9,
    job_control_flags=0xFF,
    job_description=b"Month end\0rest".ljust(49, b"\1") + b"\0",
    queue_record=bytes(range(152)),
    client_station=77,
    client_task=88,
    client_id=99,
    job_number=555,
    job_position=66,
    job_file_name="X",
    job_file_handle=123456,
    servicing_server_station=1,
    servicing_server_task_number=2,
    servicing_server_id_number=3,
)


# -- create


@pytest.mark.spec(
    "NCP 0x79/1",
    "NCP 0x79/4",
    "NCP 0x68/1",
    "NCP 0x7A/1",
    "QMS Managing 1/1",
    "QMS Managing 2/1",
    "QMS Managing 2/2",
    "QMS Table 25/4",
    "QMS clientStation/1",
    "QMS clientTask/1",
    "QMS clientID/1",
    "QMS Files/5",
)
@pytest.mark.parametrize("old", [False, True])
def test_qms_fills_its_own_fields_and_keeps_those_of_the_client(walk: Walk, old: bool) -> None:
    line = line_of(walk.alice)
    made = ask(walk.alice, calls.OLD_CREATE_JOB if old else calls.CREATE_JOB, walk.queue, JOB).job
    assert made.job_number == 1
    assert made.job_position == 1
    assert made.job_file_name == f"Q${walk.queue & 0xFFFF:04X}.001"
    assert made.job_control_flags == 0x78  # 0x80 is an operator's, 0x20 is QMS's, the rest nobody's
    assert (made.client_station, made.client_task) == (line.connection, 1)
    assert made.client_id == line.station.object_id
    assert made.servicing_server_id_number == 0
    read = ask(walk.alice, calls.OLD_READ_JOB if old else calls.READ_JOB, walk.queue, 1).job
    client_fields = (
        "target_server_id",
        "target_execution_time",
        "job_type",
        "job_description",
        "queue_record",
    )
    for name in client_fields:
        assert getattr(read, name) == getattr(JOB, name), name
    assert read.job_entry_time == bytes((23, 11, 14, 22, 13, 20))


@pytest.mark.spec("NCP 0x79/4", "QMS Table 26/8")
def test_an_operator_may_create_a_job_with_his_hold(walk: Walk) -> None:
    walk.rig.run(_add_user(walk, "OSCAR"))
    made = walk.oscar.create_queue_file(walk.queue, JOB)
    assert made.job_control_flags == 0xF8


def _add_user(walk: Walk, name: str) -> Any:
    root = walk.rig.root()
    return lambda m: m.bindery.add_object_to_set(root, JOB_QUEUE, "JOBS", "Q_USERS", 1, name)


@pytest.mark.spec("NCP 0x79/2", "NCP 0x79/3", "NCP job numbers/2")
def test_creation_is_refused_with_its_code() -> None:
    rig = NcpRig(qms=QmsSettings(jobs_max=2))
    for name in ("ALICE", "OSCAR", "MALLORY"):
        rig.user(name)
    walk = Walk(rig, rig.queue(users="ALICE", operators="OSCAR"))
    refused(0xD1, walk.alice.create_queue_file, 0x77777777, JOB)
    refused(0xD3, walk.mallory.create_queue_file, walk.queue, JOB)
    refused(0xD3, walk.oscar.create_queue_file, walk.queue, JOB)
    walk.submitted()
    walk.submitted()
    refused(0xD4, walk.alice.create_queue_file, walk.queue, JOB)


@pytest.mark.spec("NCP 0x79/3")
def test_a_full_disk_takes_no_jobs(walk: Walk) -> None:
    alice = walk.alice
    walk.rig.run(lambda m: m.machine.begin_flow_control("disk"))
    walk.rig.store.has_room = lambda: False  # type: ignore[attr-defined, method-assign]
    refused(0x99, alice.create_queue_file, walk.queue, JOB)


@pytest.mark.spec("NCP 0x68/1", "NCP 0x79/1", "NCP 0x7B/1")
@pytest.mark.parametrize(
    ("subfunction", "size"), [(0x68, 255), (0x79, 279), (0x6D, 255), (0x7B, 279)]
)
def test_a_structure_that_is_too_short_is_refused(walk: Walk, subfunction: int, size: int) -> None:
    data = walk.queue.to_bytes(4, "big") + bytes(size)
    reply = line_of(walk.alice).raw(0x17, write_subfunction(subfunction, data))
    assert reply.completion == 0x7E
    assert walk.numbers == ()


# -- start and remove


@pytest.mark.spec("NCP 0x7F/1", "NCP 0x7F/3", "QMS Submitting/3", "QMS Submitting/4")
@pytest.mark.parametrize("call", [calls.START_JOB, calls.OLD_START_JOB])
def test_start_closes_the_file_and_lets_the_job_go(walk: Walk, call: Any) -> None:
    job = walk.created(job_control_flags=0x40)
    refused(0xD5, walk.server.service_queue_job, walk.queue)
    ask(walk.alice, call, walk.queue, job.job_number)
    assert walk.entry(job.job_number).job_control_flags == 0x40
    refused(0x88, walk.alice.write_file, job.job_file_handle, 0, b"late")
    refused(0xD6, ask, walk.alice, call, walk.queue, job.job_number)
    refused(0xD5, ask, walk.alice, call, walk.queue, 99)


@pytest.mark.spec("NCP 0x7F/2")
def test_only_the_connection_that_created_a_job_starts_it(walk: Walk) -> None:
    job = walk.created()
    second = walk.rig.logged_in("ALICE")
    for other in (second, walk.oscar):
        refused(0xD6, other.close_file_and_start_queue_job, walk.queue, job.job_number)
    walk.alice.close_file_and_start_queue_job(walk.queue, job.job_number)


@pytest.mark.spec("QMS Submitting/5")
def test_closing_and_aborting_leaves_nothing(walk: Walk) -> None:
    job = walk.created()
    walk.alice.close_file_and_abort_queue_job(walk.queue, job.job_number, job.job_file_handle)
    assert walk.numbers == ()


@pytest.mark.spec("NCP 0x80/1", "NCP 0x80/2", "QMS Table 27/1")
@pytest.mark.parametrize("call", [calls.REMOVE_JOB, calls.OLD_REMOVE_JOB])
def test_owner_and_operator_remove_a_job_also_in_service(walk: Walk, call: Any) -> None:
    first, second = walk.submitted(), walk.submitted()
    job = walk.server.service_queue_job(walk.queue)
    refused(0xD6, ask, walk.server, call, walk.queue, first)
    refused(0xD5, ask, walk.oscar, call, walk.queue, 99)
    ask(walk.oscar, call, walk.queue, first)
    refused(0x88, walk.server.read_file, job.job_file_handle, 0, 4)
    ask(walk.alice, call, walk.queue, second)
    assert walk.numbers == ()


# -- lists and entries


@pytest.mark.spec("NCP 0x6B/1", "NCP 0x81/1", "NCP 0x81/2", "NCP job structure/5")
def test_lists_are_in_queue_order_and_pages_of_125(walk: Walk) -> None:
    for _ in range(130):
        walk.created(b"")
    walk.oscar.change_queue_job_position(walk.queue, 130, 1)
    numbers = (130, *range(1, 130))
    assert ask(walk.alice, calls.OLD_LIST_JOBS, walk.queue).numbers == numbers
    first = walk.alice.get_queue_job_list(walk.queue)
    assert first == (130, numbers[:125])
    assert walk.alice.get_queue_job_list(walk.queue, 126) == (130, numbers[125:])
    for start in (0, 0xFFFFFFFF):
        assert walk.alice.get_queue_job_list(walk.queue, start) == first
    assert walk.alice.get_queue_job_list(walk.queue, 131) == (130, ())
    seen, number = [], numbers[0]
    while number:
        seen.append(number)
        number = walk.entry(number).next_record
    assert tuple(seen) == numbers


@pytest.mark.spec("NCP 0x7A/1", "QMS Table 27/2", "QMS Monitoring/3")
def test_entries_are_for_users_operators_and_servers(walk: Walk) -> None:
    number = walk.submitted(job_type=5)
    for client in (walk.alice, walk.oscar, walk.server):
        assert client.read_queue_job_entry(walk.queue, number).job_type == 5
        refused(0xD5, client.read_queue_job_entry, walk.queue, 99)
    refused(0xD3, walk.mallory.read_queue_job_entry, walk.queue, number)
    refused(0xD3, walk.mallory.get_queue_job_list, walk.queue)


@pytest.mark.spec("NCP 0x7B/1", "NCP 0x7B/3", "QMS Managing 3/1", "QMS Managing 3/3")
@pytest.mark.parametrize("call", [calls.CHANGE_JOB, calls.OLD_CHANGE_JOB])
def test_a_change_finds_its_job_by_the_number_inside(walk: Walk, call: Any) -> None:
    number = walk.submitted()
    before = walk.entry(number)
    ask(walk.alice, call, walk.queue, JOB._replace(job_number=number, job_position=9))
    after = walk.entry(number)
    assert after.job_type == 9
    assert after.job_control_flags == 0x58  # neither 0x80 nor 0x20
    assert after.queue_record == JOB.queue_record
    for name in ("client_id", "job_entry_time", "job_file_name", "job_position"):
        assert getattr(after, name) == getattr(before, name), name
    ask(walk.oscar, call, walk.queue, JOB._replace(job_number=number))
    assert walk.entry(number).job_control_flags == 0xD8
    ask(walk.alice, call, walk.queue, JOB._replace(job_number=number, job_control_flags=0))
    assert walk.entry(number).job_control_flags == 0x80
    refused(0xD6, ask, walk.server, call, walk.queue, JOB._replace(job_number=number))
    refused(0xD5, ask, walk.alice, call, walk.queue, JOB._replace(job_number=99))


@pytest.mark.spec("NCP 0x7B/2", "QMS Table 27/3")
def test_a_job_in_service_is_its_servers_to_change(walk: Walk) -> None:
    job = walk.serviced()
    change = JOB._replace(job_number=job.job_number)
    for client in (walk.alice, walk.oscar):
        refused(0xD7, client.change_queue_job_entry, walk.queue, change)
    assert walk.entry(job.job_number).job_type == 0
    walk.server.change_queue_job_entry(walk.queue, change)
    assert walk.entry(job.job_number).job_type == 9


@pytest.mark.spec("NCP 0x82/1", "NCP 0x82/2", "NCP 0x6E/2", "QMS Table 27/5")
@pytest.mark.parametrize("call", [calls.CHANGE_POSITION, calls.OLD_CHANGE_POSITION])
def test_an_operator_moves_jobs(walk: Walk, call: Any) -> None:
    for _ in range(3):
        walk.submitted()
    refused(0xD6, ask, walk.alice, call, walk.queue, 3, 1)
    ask(walk.oscar, call, walk.queue, 3, 0)
    assert walk.numbers == (3, 1, 2)
    ask(walk.oscar, call, walk.queue, 3, 200)
    assert walk.numbers == (1, 2, 3)
    refused(0xD5, ask, walk.oscar, call, walk.queue, 99, 1)
    job = walk.server.service_queue_job(walk.queue)
    ask(walk.oscar, call, walk.queue, job.job_number, 3)
    assert walk.entry(job.job_number).servicing_server_id_number
    assert walk.numbers == (2, 3, 1)


@pytest.mark.spec("NCP 0x6E/1")
def test_a_number_the_wrong_way_round_is_understood(walk: Walk) -> None:
    for _ in range(3):
        walk.submitted()
    data = walk.queue.to_bytes(4, "big") + bytes.fromhex("0300 01")  # as ncpfs sends job 3
    assert line_of(walk.oscar).raw(0x17, write_subfunction(0x6E, data)).completion == 0
    assert walk.numbers == (3, 1, 2)


# -- service


@pytest.mark.spec("NCP 0x7C/1", "NCP 0x7C/2", "NCP 0x7C/3", "QMS Managing 4/4", "QMS Managing 5/1")
@pytest.mark.parametrize("call", [calls.SERVICE_JOB, calls.OLD_SERVICE_JOB])
def test_a_server_gets_the_first_job_that_fits(walk: Walk, call: Any) -> None:
    refused(0xD5, ask, walk.server, call, walk.queue, 0xFFFF)
    walk.submitted(job_control_flags=0x40)
    walk.created()
    walk.submitted(job_type=0x0102)
    walk.submitted(job_type=0x0203)
    walk.submitted(target_server_id=0x123)
    line = line_of(walk.server)
    job = ask(walk.server, call, walk.queue, 0x0203).job
    assert job.job_number == 4
    assert job.servicing_server_station == line.connection
    assert job.servicing_server_task_number == 1
    assert job.servicing_server_id_number == line.station.object_id
    assert ask(walk.server, call, walk.queue, 0xFFFF).job.job_number == 3
    refused(0xD5, ask, walk.server, call, walk.queue, 0xFFFF)
    refused(0xD9, ask, walk.alice, call, walk.queue, 0xFFFF)
    refused(0xD1, ask, walk.server, call, 7, 0xFFFF)


@pytest.mark.spec("NCP 0x7C/1", "QMS targetExecutionTime/1")
def test_a_job_waits_for_its_time(walk: Walk) -> None:
    walk.submitted(target_execution_time=bytes((23, 11, 14, 22, 14, 20)))
    refused(0xD5, walk.server.service_queue_job, walk.queue)
    walk.rig.pass_time(60_000)
    assert walk.server.service_queue_job(walk.queue).job_number == 1


@pytest.mark.spec("NCP 0x7C/4")
def test_a_server_services_several_jobs_at_once(walk: Walk) -> None:
    for _ in range(3):
        walk.submitted()
    jobs = [walk.server.service_queue_job(walk.queue) for _ in range(3)]
    assert [job.job_number for job in jobs] == [1, 2, 3]
    for job in reversed(jobs):
        assert walk.server.read_file(job.job_file_handle, 0, 9) == b"data"
        walk.server.finish_servicing_queue_job(walk.queue, job.job_number)


@pytest.mark.spec("NCP 0x89/1", "NCP 0x8A/1")
def test_jobs_are_listed_and_serviced_by_a_list_of_types(walk: Walk) -> None:
    for job_type in (1, 2, 3, 2, 0x0102):
        walk.submitted(job_type=job_type)
    listed = walk.alice.get_queue_jobs_from_form_list(walk.queue, (2, 0x0102))
    assert listed == (3, (2, 4, 5))
    assert walk.alice.get_queue_jobs_from_form_list(walk.queue, (2, 0x0102), 3) == (3, (5,))
    assert walk.alice.get_queue_jobs_from_form_list(walk.queue, (0xFFFF,)).total == 5
    assert walk.alice.get_queue_jobs_from_form_list(walk.queue, ()).total == 0
    assert walk.server.service_queue_job(walk.queue, (3, 0x0102)).job_number == 3
    assert walk.server.service_queue_job(walk.queue, (3, 0x0102)).job_number == 5
    refused(0xD5, walk.server.service_queue_job, walk.queue, (3, 0x0102))
    refused(0xD5, ask, walk.server, calls.SERVICE_BY_FORMS, walk.queue, 1, ())


@pytest.mark.spec("NCP 0x83/1", "NCP 0x83/2", "NCP 0x83/3", "QMS Servicing/10", "QMS Files/9")
@pytest.mark.parametrize(
    ("call", "charge"),
    [(calls.FINISH_JOB, 4), (calls.FINISH_JOB, 2), (calls.OLD_FINISH_JOB, 4)],
)
def test_a_finished_job_is_gone(walk: Walk, call: Any, charge: int) -> None:
    job = walk.serviced()
    refused(0xD9, ask, walk.alice, call, walk.queue, job.job_number, 0)
    other = walk.rig.logged_in("SERVER", JOB_SERVER)
    other.attach_queue_server_to_queue(walk.queue)
    refused(0xD6, ask, other, call, walk.queue, job.job_number, 0)
    data = call.request.write(call.request.record(walk.queue, job.job_number, 0))
    reply = line_of(walk.server).raw(
        0x17, write_subfunction(call.subfunction, data[: len(data) - 4 + charge])
    )
    assert reply.completion == 0
    assert walk.numbers == ()
    refused(0x88, walk.server.read_file, job.job_file_handle, 0, 1)


@pytest.mark.spec("NCP 0x84/1", "NCP 0x84/2", "NCP 0x83/3", "QMS Servicing/13")
@pytest.mark.parametrize("call", [calls.ABORT_JOB, calls.OLD_ABORT_JOB])
def test_an_aborted_job_follows_its_restart_flag(walk: Walk, call: Any) -> None:
    walk.submitted(job_control_flags=0x10)
    walk.submitted()
    kept, gone = (walk.server.service_queue_job(walk.queue) for _ in range(2))
    refused(0xD9, ask, walk.alice, call, walk.queue, kept.job_number)
    for job in (kept, gone):
        ask(walk.server, call, walk.queue, job.job_number)
        refused(0x88, walk.server.read_file, job.job_file_handle, 0, 1)
    refused(0xD6, ask, walk.server, call, walk.queue, kept.job_number)
    assert walk.numbers == (kept.job_number,)
    entry = walk.entry(kept.job_number)
    assert entry.job_position == 1
    assert entry.servicing_server_id_number == 0
    assert walk.server.service_queue_job(walk.queue).job_number == kept.job_number


@pytest.mark.spec(
    "NCP 0x85/1", "NCP 0x85/2", "NCP 0x75/1", "NCP 0x83/3", "QMS Servicing/7", "QMS Servicing/9"
)
@pytest.mark.parametrize("call", [calls.CLIENT_RIGHTS, calls.OLD_CLIENT_RIGHTS])
def test_client_rights_make_the_server_its_client_for_a_while(walk: Walk, call: Any) -> None:
    job = walk.serviced()
    own = line_of(walk.server).station.object_id
    refused(0xD9, walk.server.restore_queue_server_rights)
    refused(0xD9, ask, walk.alice, call, walk.queue, job.job_number)
    refused(0xD5, ask, walk.server, call, walk.queue, 99)
    refused(0xD6, ask, walk.server, call, walk.queue, walk.submitted())
    ask(walk.server, call, walk.queue, job.job_number)
    assert walk.server.get_bindery_access_level().id == job.client_id
    assert walk.server.read_file(job.job_file_handle, 0, 9) == b"data"
    walk.server.restore_queue_server_rights()
    assert walk.server.get_bindery_access_level().id == own
    refused(0xD9, walk.server.restore_queue_server_rights)
    ask(walk.server, call, walk.queue, job.job_number)
    walk.server.finish_servicing_queue_job(walk.queue, job.job_number)
    assert walk.server.get_bindery_access_level().id == own


@pytest.mark.spec("NCP 0x87/1", "QMS Servicing/4")
@pytest.mark.parametrize("call", [calls.FILE_SIZE, calls.OLD_FILE_SIZE])
def test_the_size_of_a_jobs_data_is_told(walk: Walk, call: Any) -> None:
    number = walk.submitted(b"x" * 70_000)
    assert ask(walk.server, call, walk.queue, number) == (walk.queue, number, 70_000)
    refused(0xD3, ask, walk.mallory, call, walk.queue, number)
    refused(0xD5, ask, walk.alice, call, walk.queue, 99)


@pytest.mark.spec("NCP 0x88/1")
def test_a_job_moves_to_another_queue_under_a_new_number(walk: Walk) -> None:
    other = walk.rig.queue("OTHER", users="ALICE", operators="MALLORY")
    walk.submitted()
    number = walk.submitted(b"moved", job_type=7)
    refused(0xD6, walk.oscar.move_queue_job, walk.queue, number, other)
    moved = walk.alice.move_queue_job(walk.queue, number, other)
    assert moved == 1
    assert walk.numbers == (1,)
    assert walk.alice.read_queue_job_entry(other, moved).job_type == 7
    assert walk.alice.get_queue_job_size(other, moved) == 5
