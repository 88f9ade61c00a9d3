"""Queues and their servers over NCP, old and new calls (qms-facts 3.1, 3.2, 5-7)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.bindery import SUPERVISOR
from posthouse.model.qms import NWQueueJobStruct
from posthouse.wire.ncp import queue_calls as calls
from posthouse.wire.ncp.framing import write_subfunction
from tests.protocols.job_queue.rig import JOB_QUEUE, JOB_SERVER, PASSWORD, PATH, NcpRig
from tests.protocols.job_queue.walk import Walk, line_of, refused

PRINT_QUEUE, ARCHIVE_QUEUE = 3, 8


@pytest.fixture
def root(rig: NcpRig) -> NcpCalls:
    rig.user(SUPERVISOR)
    return rig.logged_in(SUPERVISOR)


def ask(client: NcpCalls, call: Any, *asked: Any) -> Any:
    return client.link.request(call, call.request.record(*asked))


# -- create and destroy


@pytest.mark.spec("NCP 0x64/1", "QMS Creating Queues/3", "QMS Creating Queues/4", "QMS Table 24/1")
@pytest.mark.parametrize("kind", [PRINT_QUEUE, ARCHIVE_QUEUE, JOB_QUEUE, 0x8100])
def test_a_queue_of_any_type_is_created_with_its_properties(root: NcpCalls, kind: int) -> None:
    queue = root.create_queue("PQ", kind, "SYS:\\SYSTEM")
    assert root.get_object_name(queue) == ("PQ", kind)
    directory = root.read_property_value("PQ", kind, "Q_DIRECTORY").value
    assert directory == f"SYS:\\SYSTEM\\{queue:08X}".encode().ljust(128, b"\0")
    shown = {}
    instance = 0xFFFFFFFF
    for _ in range(5):
        found = root.scan_property("PQ", kind, "Q_*", instance)
        shown[found.name], instance = (found.flags, found.security), found.instance
    assert shown.pop("Q_CODE_USERS") == (2, 0x30)  # ours, for decision 17
    assert shown == {
        "Q_DIRECTORY": (0, 0x33),
        "Q_SERVERS": (2, 0x30),
        "Q_OPERATORS": (2, 0x30),
        "Q_USERS": (2, 0x30),
    }


@pytest.mark.spec("NCP 0x64/2", "NCP 0x64/3", "QMS Creating Queues/1", "QMS Q_DIRECTORY/8")
def test_creation_is_refused_with_its_code(rig: NcpRig, root: NcpCalls) -> None:
    root.create_queue("PQ", PRINT_QUEUE, PATH)
    refused(0xEE, root.create_queue, "PQ", PRINT_QUEUE, PATH)
    refused(0x9C, root.create_queue, "Q2", PRINT_QUEUE, "")
    refused(0x9C, root.create_queue, "Q2", PRINT_QUEUE, "S" * 119)
    root.create_queue("Q3", PRINT_QUEUE, "S" * 118)
    refused(0x9B, ask, root, calls.CREATE_QUEUE, PRINT_QUEUE, "Q2", 1, PATH)
    rig.user("ALICE")
    refused(0xD3, rig.logged_in("ALICE").create_queue, "Q2", PRINT_QUEUE, PATH)
    refused(0xD3, rig.client().create_queue, "Q2", PRINT_QUEUE, PATH)
    refused(0xFC, root.get_object_id, "Q2", PRINT_QUEUE)


@pytest.mark.spec("NCP 0x65/1", "NCP 0x65/2", "QMS Creating Queues/10")
def test_a_destroyed_queue_leaves_nothing(walk: Walk) -> None:
    job = walk.serviced()
    walk.rig.user(SUPERVISOR)
    root = walk.rig.logged_in(SUPERVISOR)
    refused(0xD3, walk.oscar.destroy_queue, walk.queue)
    refused(0xD1, root.destroy_queue, 0x12345678)
    refused(0xD1, root.destroy_queue, 1)  # SUPERVISOR is not a queue
    root.destroy_queue(walk.queue)
    refused(0xFC, root.get_object_name, walk.queue)
    refused(0x88, walk.server.read_file, job.job_file_handle, 0, 10)
    refused(0xD1, walk.server.finish_servicing_queue_job, walk.queue, job.job_number)
    refused(0xD1, walk.alice.read_queue_current_status, walk.queue)


# -- status


@pytest.mark.spec("NCP 0x7D/1", "NCP 0x7D/2", "NCP 0x66/1", "NCP 0x6F/1")
def test_both_status_calls_tell_jobs_and_attached_servers(walk: Walk) -> None:
    walk.submitted()
    server = line_of(walk.server)
    servers = ((server.station.object_id, server.connection),)
    new = walk.alice.read_queue_current_status(walk.queue)
    assert new == (walk.queue, 0, 1, servers)
    assert ask(walk.alice, calls.OLD_READ_STATUS, walk.queue) == new


@pytest.mark.spec("NCP 0x7E/1", "NCP queue status/1", "NCP 0x79/3")
@pytest.mark.parametrize("call", [calls.SET_STATUS, calls.OLD_SET_STATUS])
def test_bit_0x01_stops_new_jobs(walk: Walk, call: Any) -> None:
    refused(0xD3, ask, walk.alice, call, walk.queue, 0x01)
    ask(walk.oscar, call, walk.queue, 0x01)
    refused(0xDA, walk.alice.create_queue_file, walk.queue, NWQueueJobStruct())
    assert walk.oscar.read_queue_current_status(walk.queue).status == 0x01
    ask(walk.oscar, call, walk.queue, 0)
    walk.submitted()


@pytest.mark.spec("NCP 0x7E/1")
def test_four_bytes_of_status_are_their_first(walk: Walk) -> None:
    data = walk.queue.to_bytes(4, "big") + bytes.fromhex("02ffffff")
    reply = line_of(walk.oscar).raw(0x17, write_subfunction(0x7E, data))
    assert reply.completion == 0
    assert walk.oscar.read_queue_current_status(walk.queue).status == 0x02


@pytest.mark.spec("NCP queue status/2", "NCP 0x6F/2")
def test_bit_0x02_stops_further_servers_and_attached_ones_stay(walk: Walk) -> None:
    walk.submitted()
    attached = walk.server
    walk.oscar.set_queue_current_status(walk.queue, 0x02)
    late = walk.rig.logged_in("SERVER", JOB_SERVER)
    refused(0xDA, late.attach_queue_server_to_queue, walk.queue)
    assert attached.service_queue_job(walk.queue).job_number == 1


@pytest.mark.spec("NCP queue status/3", "NCP 0x7C/3")
def test_bit_0x04_stops_service_and_a_job_in_service_goes_on(walk: Walk) -> None:
    job = walk.serviced()
    walk.submitted()
    walk.oscar.set_queue_current_status(walk.queue, 0x04)
    refused(0xDA, walk.server.service_queue_job, walk.queue)
    assert walk.server.read_file(job.job_file_handle, 0, 10) == b"data"
    walk.server.finish_servicing_queue_job(walk.queue, job.job_number)


# -- servers


@pytest.mark.spec("NCP 0x6F/2", "QMS Servicing/2")
def test_only_listed_servers_attach_and_no_more_than_25(walk: Walk) -> None:
    refused(0xD3, walk.alice.attach_queue_server_to_queue, walk.queue)
    walk.rig.user("OTHER", JOB_SERVER)
    other = walk.rig.logged_in("OTHER", JOB_SERVER)
    refused(0xD3, other.attach_queue_server_to_queue, walk.queue)
    refused(0xD1, other.attach_queue_server_to_queue, 7)
    for _ in range(25):
        walk.rig.logged_in("SERVER", JOB_SERVER).attach_queue_server_to_queue(walk.queue)
    late = walk.rig.logged_in("SERVER", JOB_SERVER)
    refused(0xDB, late.attach_queue_server_to_queue, walk.queue)


@pytest.mark.spec("NCP 0x70/1", "NCP 0x70/2")
def test_detaching_ends_the_service_of_its_jobs(walk: Walk) -> None:
    kept = walk.submitted(job_control_flags=0x10)
    walk.submitted()
    walk.server.service_queue_job(walk.queue)
    walk.server.service_queue_job(walk.queue)
    walk.server.detach_queue_server_from_queue(walk.queue)
    assert walk.numbers == (kept,)
    assert walk.entry(kept).servicing_server_id_number == 0
    assert walk.oscar.read_queue_current_status(walk.queue).servers == ()
    refused(0xD2, walk.server.detach_queue_server_from_queue, walk.queue)


@pytest.mark.spec("NCP 0x77/1", "NCP 0x86/1", "NCP 0x86/2", "QMS Table 27/9")
def test_a_server_sets_its_own_record_and_users_read_it(walk: Walk) -> None:
    line = line_of(walk.server)
    record = bytes(range(64))
    walk.server.set_queue_server_current_status(walk.queue, record)
    where = walk.queue, line.station.object_id, line.connection
    assert walk.alice.read_queue_server_current_status(*where) == record
    assert ask(walk.oscar, calls.OLD_SERVER_STATUS, *where).record == record
    refused(0xD3, walk.mallory.read_queue_server_current_status, *where)
    refused(0xD3, ask, walk.mallory, calls.OLD_SERVER_STATUS, *where)
    refused(0xD9, walk.oscar.set_queue_server_current_status, walk.queue, record)
    walk.server.detach_queue_server_from_queue(walk.queue)
    refused(0xD2, walk.alice.read_queue_server_current_status, *where)
    refused(0xD2, ask, walk.alice, calls.OLD_SERVER_STATUS, *where)


@pytest.mark.spec("NCP 0x86/1", "QMS clientStation/2")
def test_old_calls_name_a_station_by_its_low_byte(walk: Walk) -> None:
    for _ in range(300):
        walk.rig.client()
    late = walk.rig.logged_in("SERVER", JOB_SERVER, PASSWORD)
    late.attach_queue_server_to_queue(walk.queue)
    late.set_queue_server_current_status(walk.queue, b"late")
    line = line_of(late)
    assert line.connection > 255
    (shown,) = ask(walk.alice, calls.OLD_READ_STATUS, walk.queue).servers
    assert shown == (line.station.object_id, line.connection & 0xFF)
    record = ask(walk.alice, calls.OLD_SERVER_STATUS, walk.queue, *shown).record
    assert record == b"late".ljust(64, b"\0")


@pytest.mark.spec("NCP lost connections/2", "NCP session/7")
def test_a_server_whose_connection_is_lost_is_attached_no_more(walk: Walk) -> None:
    kept = walk.submitted(job_control_flags=0x10)
    walk.submitted()
    for _ in range(2):
        walk.server.service_queue_job(walk.queue)
    line_of(walk.server).lose()
    assert walk.oscar.read_queue_current_status(walk.queue).servers == ()
    assert walk.numbers == (kept,)
    assert walk.entry(kept).servicing_server_id_number == 0


@pytest.mark.spec("NCP lost connections/3")
def test_jobs_survive_a_restart_by_their_flags(walk: Walk) -> None:
    waiting = walk.submitted()
    released = walk.created(job_control_flags=0x08).job_number
    walk.created()
    walk.rig.restart()
    again = Walk(walk.rig, walk.queue)
    assert again.numbers == (waiting, released)
    assert again.entry(released).job_control_flags == 0x08


@pytest.mark.spec("NCP lost connections/3")
@pytest.mark.parametrize(("flags", "stays"), [(0x10, True), (0, False)])
def test_a_job_in_service_follows_its_flag_over_a_restart(
    walk: Walk, flags: int, stays: bool
) -> None:
    number = walk.submitted(job_control_flags=flags)
    walk.server.service_queue_job(walk.queue)
    walk.rig.restart()
    again = Walk(walk.rig, walk.queue)
    assert again.numbers == ((number,) if stays else ())
