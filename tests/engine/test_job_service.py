"""Servicing Entries in the Queue: attach, service, finish, abort, client rights (qms-facts 7)."""

from __future__ import annotations

import pytest

from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.bindery import NWOT_JOB_QUEUE, NWOT_JOB_SERVER, NWOT_USER, Q_SERVERS
from posthouse.model.qms import (
    ANY_SERVER,
    NWCF_SERVICE_RESTART,
    NWQueueJobStruct,
    pack_time,
)
from tests.engine.job_rig import JobRig
from tests.engine.rig import START_UTC

QUEUE = (NWOT_JOB_QUEUE, "JOBS")


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


# -- attaching


@pytest.mark.spec("NCP 0x6F/1", "NCP 0x6F/2", "QMS Servicing/2", "QMS Servicing/3")
def test_servers_of_the_queue_attach_and_look(rig: JobRig) -> None:
    rig.submit(b"12345")
    server = rig.attach()
    rig.attach()  # once is enough
    status = rig.jobs("read_queue_current_status", server, rig.q)
    assert status.servers == ((server.object_id, server.number),)
    assert rig.jobs("get_queue_job_list", server, rig.q) == (1, (1,))
    for station in (rig.user("ANNA"), rig.user("OTTO"), rig.super, rig.station()):
        with rig.completion(0xD3):
            rig.jobs("attach_queue_server_to_queue", station, rig.q)


@pytest.mark.spec("NCP 0x6F/2")
def test_the_twenty_sixth_server_is_one_too_many(rig: JobRig) -> None:
    assert QmsSettings().servers_max == 25
    stations = [rig.station() for _ in range(26)]
    for at, station in enumerate(stations):
        rig.bindery("enter", station, rig.admin, NWOT_JOB_SERVER, "SRV1")
        if at < 25:
            rig.jobs("attach_queue_server_to_queue", station, rig.q)
    with rig.completion(0xDB):
        rig.jobs("attach_queue_server_to_queue", stations[25], rig.q)
    rig.lose(stations[3])
    rig.jobs("attach_queue_server_to_queue", stations[25], rig.q)


@pytest.mark.spec("NCP 0x70/1", "NCP 0x70/2", "QMS Servicing/12")
@pytest.mark.parametrize("restart", [0, NWCF_SERVICE_RESTART])
def test_a_server_that_detaches_aborts_what_it_services_there(rig: JobRig, restart: int) -> None:
    rig.submit(job_control_flags=restart)
    server = rig.attach()
    taken = rig.service()
    rig.jobs("detach_queue_server_from_queue", server, rig.q)
    assert rig.numbers() == ([1] if restart else [])
    assert rig.jobs("read_queue_current_status", server, rig.q).servers == ()
    with rig.completion(0x88):
        rig.jobs("read_file", server, taken.job_file_handle, 0, 1)
    with rig.completion(0xD2):
        rig.jobs("detach_queue_server_from_queue", server, rig.q)
    with rig.completion(0xD9):
        rig.service()
    rig.check()


def test_detaching_from_one_queue_leaves_the_others_alone(rig: JobRig) -> None:
    other = rig.create_jobs("OTHER")
    rig.submit()
    rig.submit(queue=other)
    server = rig.attach()
    rig.attach(queue=other)
    rig.service()
    kept = rig.jobs("service_queue_job", server, other)
    rig.jobs("detach_queue_server_from_queue", server, rig.q)
    assert rig.jobs("read_file", server, kept.job_file_handle, 0, 9) == b"data"


# -- which job


@pytest.mark.spec("NCP 0x7C/1", "QMS Servicing/5", "QMS Managing 4/3", "QMS Managing 5/1")
@pytest.mark.spec("QMS servicingServerStation/1", "QMS servicingServerTaskNumber/1")
@pytest.mark.spec("QMS servicingServerIDNumber/1")
def test_a_job_is_given_to_one_server_and_says_to_which(rig: JobRig) -> None:
    first, second = rig.submit(), rig.submit()
    one, two = rig.attach("SRV1"), rig.attach("SRV2")
    one.task = 9
    taken = rig.service("SRV1")
    read = rig.entry(first)
    for job in (taken, read):
        assert job.job_number == first
        assert job.servicing_server_station == one.number
        assert job.servicing_server_task_number == 9
        assert job.servicing_server_id_number == one.object_id
    assert taken.job_file_handle in one.handles
    assert rig.service("SRV2").job_number == second
    for name in ("SRV1", "SRV2"):
        with rig.completion(0xD5):
            rig.service(name)
    assert rig.entry(second).servicing_server_id_number == two.object_id


@pytest.mark.spec("NCP 0x7C/4", "QMS Servicing/11")
def test_a_server_has_several_jobs_at_once_and_goes_on_without_attaching_again(
    rig: JobRig,
) -> None:
    for _ in range(3):
        rig.submit()
    rig.attach()
    taken = [rig.service().job_number for _ in range(2)]
    rig.finish(taken[0])
    assert rig.service().job_number == 3
    rig.finish(taken[1])
    rig.finish(3)
    assert rig.outcomes() == {1: "finished", 2: "finished", 3: "finished"}


@pytest.mark.spec("QMS targetServerID/1", "QMS targetServerID/2", "QMS Managing 4/1")
def test_a_target_server_alone_gets_the_job(rig: JobRig) -> None:
    rig.attach("SRV1")
    two = rig.attach("SRV2")
    aimed = rig.submit(target_server_id=two.object_id)
    free = rig.submit()
    assert rig.service("SRV1").job_number == free
    with rig.completion(0xD5):
        rig.service("SRV1")
    assert rig.service("SRV2").job_number == aimed


def test_the_first_of_both_kinds_is_given(rig: JobRig) -> None:
    one = rig.attach("SRV1")
    for target in (None, one.object_id, None, one.object_id):
        rig.submit(target_server_id=ANY_SERVER if target is None else target)
    assert [rig.service("SRV1").job_number for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.spec("QMS targetExecutionTime/1", "QMS targetExecutionTime/2", "QMS Managing 4/2")
def test_no_job_is_given_before_its_time_by_the_servers_clock(rig: JobRig) -> None:
    rig.manager.jobs.utc_offset_s = lambda utc: 3600
    later = rig.submit(target_execution_time=pack_time(START_UTC + 3600 + 60))
    past = rig.submit(target_execution_time=pack_time(START_UTC))
    rig.attach()
    assert rig.service().job_number == past
    with rig.completion(0xD5):
        rig.service()
    rig.advance(59)
    with rig.completion(0xD5):
        rig.service()
    rig.advance(1)
    assert rig.service().job_number == later


def test_a_clock_that_is_put_back_holds_jobs_back_again(rig: JobRig) -> None:
    rig.submit(target_execution_time=pack_time(START_UTC + 60))
    rig.submit(target_execution_time=pack_time(START_UTC + 60), job_control_flags=0)
    rig.attach()
    rig.advance(60)
    rig.service()
    rig.manager.jobs.utc_offset_s = lambda utc: -3600
    with rig.completion(0xD5):
        rig.service()
    rig.manager.jobs.utc_offset_s = lambda utc: 0
    assert rig.service().job_number == 2


@pytest.mark.spec("QMS targetExecutionTime/6")
def test_what_is_no_date_means_at_once(rig: JobRig) -> None:
    rig.submit(target_execution_time=bytes((99, 99, 99, 99, 99, 99)))
    rig.attach()
    rig.service()


@pytest.mark.spec("QMS Managing 4/4", "NCP 0x7C/2", "NCP 0x8A/1", "QMS jobType/2")
def test_a_server_asks_for_types(rig: JobRig) -> None:
    for kind in (1, 2, 3, 2, 0xFFFF):
        rig.submit(job_type=kind)
    rig.attach()
    assert rig.service(types=[2]).job_number == 2
    assert rig.service(types=[3, 2]).job_number == 3
    with rig.completion(0xD5):
        rig.service(types=[9])
    with rig.completion(0xD5):
        rig.service(types=[])
    assert rig.service(types=[0xFFFF]).job_number == 1
    assert rig.service().job_number == 4
    with rig.completion(0xD5):
        rig.service(types=[2])  # the last one is of type FFFF, which is none that was asked for
    assert rig.service(types=[9, 0xFFFF]).job_number == 5


def test_a_changed_job_is_found_by_what_it_is_now(rig: JobRig) -> None:
    number = rig.submit(job_type=1, target_execution_time=pack_time(START_UTC + 60))
    rig.attach()
    job = NWQueueJobStruct(job_number=number, job_type=2)
    rig.jobs("change_queue_job_entry", rig.user("ANNA"), rig.q, job)
    with rig.completion(0xD5):
        rig.service(types=[1])
    assert rig.service(types=[2]).job_number == number
    rig.advance(60)
    with rig.completion(0xD5):
        rig.service()


@pytest.mark.spec("QMS Servicing/4")
def test_looking_at_a_job_takes_nothing(rig: JobRig) -> None:
    rig.submit(b"12345")
    server = rig.attach()
    assert rig.jobs("read_queue_job_entry", server, rig.q, 1).servicing_server_id_number == 0
    assert rig.jobs("get_queue_job_size", server, rig.q, 1) == (rig.q, 1, 5)
    assert rig.service().job_number == 1


# -- the end of a service


@pytest.mark.spec("QMS Servicing/10", "NCP 0x83/1", "QMS Files/9", "NCP 0x83/3")
def test_finish_removes_job_and_file(rig: JobRig) -> None:
    number = rig.submit(b"x" * 1000)
    server = rig.attach("SRV1")
    rig.attach("SRV2")
    taken = rig.service()
    with rig.completion(0xD6):
        rig.finish(number, "SRV2")
    with rig.completion(0xD5):
        rig.finish(99)
    rig.jobs("change_to_client_rights", server, rig.q, number)
    rig.finish(number, result="42 rows")
    assert rig.manager.bindery.object_of(server).name == "SRV1"  # type: ignore[union-attr]
    assert rig.numbers() == []
    with rig.completion(0x88):
        rig.jobs("read_file", server, taken.job_file_handle, 0, 1)
    with rig.completion(0xD5):
        rig.finish(number)
    row = rig.manager.jobs.history.rows()[-1]
    assert (row.outcome, row.server, row.result, row.size) == ("finished", "SRV1", "42 rows", 1000)
    rig.check()


@pytest.mark.spec("QMS Table 26/3", "NCP 0x84/1", "QMS Servicing/13")
def test_an_aborted_job_with_restart_stays_at_its_position(rig: JobRig) -> None:
    rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    rig.submit()
    server = rig.attach("SRV1")
    rig.attach("SRV2")
    taken = rig.service()
    with rig.completion(0xD6):
        rig.jobs("abort_servicing_queue_job", rig.server("SRV2"), rig.q, 1)
    rig.jobs("change_to_client_rights", server, rig.q, 1)
    rig.jobs("abort_servicing_queue_job", server, rig.q, 1, "no paper")
    assert rig.numbers() == [1, 2]
    read = rig.entry(1)
    assert read.servicing_server_id_number == 0
    assert read.servicing_server_station == read.servicing_server_task_number == 0
    assert rig.manager.bindery.object_of(server).name == "SRV1"  # type: ignore[union-attr]
    with rig.completion(0x88):
        rig.jobs("read_file", server, taken.job_file_handle, 0, 1)
    assert rig.service("SRV2").job_number == 1
    assert rig.jobs("details", rig.user("ANNA"), rig.q, 1).attempts == 2


def test_why_a_job_failed_is_known_as_long_as_it_stays(rig: JobRig) -> None:
    rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    rig.attach()
    rig.service()
    rig.jobs("abort_servicing_queue_job", rig.server("SRV1"), rig.q, 1, "no paper" * 1000)
    for _ in range(2):
        (job,) = rig.manager.jobs.jobs.values()
        assert job.entry.failure == ("no paper" * 1000)[:1000]
        rig.restart()
    rig.attach()
    rig.service()
    rig.restart()
    (job,) = rig.manager.jobs.jobs.values()
    assert job.entry.failure == "the queue manager was started again"


@pytest.mark.spec("QMS Table 26/4", "NCP 0x84/2", "QMS Servicing/13")
def test_an_aborted_job_without_restart_is_removed(rig: JobRig) -> None:
    rig.submit()
    rig.attach()
    rig.service()
    rig.jobs("abort_servicing_queue_job", rig.server("SRV1"), rig.q, 1, "no paper")
    assert rig.numbers() == []
    row = rig.manager.jobs.history.rows()[-1]
    assert (row.outcome, row.result) == ("failed", "no paper")
    rig.check()


@pytest.mark.spec("NCP lost connections/2", "QMS Table 26/3", "QMS Table 26/4")
@pytest.mark.parametrize("how", ["lost", "logout", "start"])
def test_jobs_of_a_server_that_is_lost_follow_the_restart_flag(rig: JobRig, how: str) -> None:
    kept, gone = rig.submit(job_control_flags=NWCF_SERVICE_RESTART), rig.submit()
    server = rig.attach()
    rig.service()
    rig.service()
    if how == "lost":
        rig.lose(server)
    elif how == "logout":
        rig.run(lambda m: m.stations.logout(server))
    else:
        rig.restart()
    assert rig.numbers() == [kept]
    assert rig.outcomes() == {gone: "failed"}
    assert rig.jobs("read_queue_current_status", rig.user("ANNA"), rig.q).servers == ()
    assert rig.entry(kept).servicing_server_id_number == 0
    rig.attach("SRV2")
    assert rig.service("SRV2").job_number == kept
    rig.check()


# -- rights of the client


@pytest.mark.spec("QMS Servicing/7", "QMS Servicing/8", "QMS Servicing/9", "NCP 0x85/1")
@pytest.mark.spec("NCP 0x85/2", "NCP 0x75/1")
def test_a_server_acts_as_its_client_until_it_is_itself_again(rig: JobRig) -> None:
    number, others = rig.submit(b"content"), rig.submit(who="BERT")
    server = rig.attach()
    with rig.completion(0xD9):
        rig.jobs("restore_queue_server_rights", server)
    with rig.completion(0xD6):
        rig.jobs("change_to_client_rights", server, rig.q, others)
    taken = rig.service()
    rig.jobs("change_to_client_rights", server, rig.q, number)
    level = rig.bindery("get_bindery_access_level", server)
    assert level.id == rig.user("ANNA").object_id
    assert rig.jobs("read_file", server, taken.job_file_handle, 0, 99) == b"content"
    made = rig.jobs("submit_job", server, rig.q, NWQueueJobStruct(), b"on her behalf")
    assert made.client_id == rig.user("ANNA").object_id
    rig.jobs("remove_job_from_queue", server, rig.q, made.job_number)
    rig.jobs("submit_job", server, rig.q, NWQueueJobStruct(job_type=3), b"hers as well")
    other = rig.attach("SRV2")
    job = rig.service("SRV2", types=[3])
    assert rig.jobs("read_file", other, job.job_file_handle, 0, 99) == b"hers as well"
    with rig.completion(0xD6):  # what their own object could not do, nor hers
        rig.jobs("remove_job_from_queue", server, rig.q, others)
    more = rig.create_jobs("MORE")
    with rig.completion(0xD3):  # she is not a server
        rig.jobs("attach_queue_server_to_queue", server, more)
    rig.jobs("restore_queue_server_rights", server)
    with rig.completion(0xD3):  # the server is not a user
        rig.jobs("submit_job", server, rig.q, NWQueueJobStruct(), b"")
    assert rig.bindery("get_bindery_access_level", server).id == server.object_id


def test_supervisor_clients_do_not_make_servers_supervisors_for_longer_than_asked(
    rig: JobRig,
) -> None:
    rig.bindery("add_object_to_set", rig.super, *QUEUE, "Q_USERS", NWOT_USER, "SUPERVISOR")
    job = rig.jobs("submit_job", rig.super, rig.q, NWQueueJobStruct(), b"")
    server = rig.attach()
    rig.service()
    with rig.completion(0xF5):
        rig.bindery("create_object", server, NWOT_JOB_SERVER, "X")
    rig.jobs("change_to_client_rights", server, rig.q, job.job_number)
    rig.bindery("create_object", server, NWOT_JOB_SERVER, "X")
    rig.jobs("detach_queue_server_from_queue", server, rig.q)
    with rig.completion(0xF5):
        rig.bindery("create_object", server, NWOT_JOB_SERVER, "Y")


def test_of_a_client_that_is_gone_nothing_is_left_to_act_as(rig: JobRig) -> None:
    rig.submit(job_control_flags=NWCF_SERVICE_RESTART)
    server = rig.attach()
    rig.service()
    rig.jobs("change_to_client_rights", server, rig.q, 1)
    rig.bindery("delete_object", rig.super, NWOT_USER, "ANNA")
    with rig.completion(0xD3):
        rig.jobs("get_queue_job_list", server, rig.q)
    rig.finish(1)
    assert rig.jobs("get_queue_job_list", server, rig.q) == (0, ())


# -- status records


@pytest.mark.spec("NCP 0x77/1", "QMS Table 27/9")
def test_a_server_has_a_record_of_its_own_for_each_queue(rig: JobRig) -> None:
    server = rig.attach()
    read = ("read_queue_server_current_status", rig.user("ANNA"), rig.q)
    assert rig.jobs(*read, server.object_id, server.number) == bytes(64)
    rig.jobs("set_queue_server_current_status", server, rig.q, b"\xff" * 64)
    assert rig.jobs(*read, server.object_id, server.number) == b"\xff" * 64
    for size in (0, 63, 65):
        with rig.completion(0x7E):
            rig.jobs("set_queue_server_current_status", server, rig.q, bytes(size))
    with rig.completion(0xD9):
        rig.jobs("set_queue_server_current_status", rig.server("SRV2"), rig.q, bytes(64))


# -- the document's own walk


@pytest.mark.spec("QMS Servicing/1", "QMS Servicing/6", "QMS Submitting/3", "QMS Servicing/10")
def test_the_walk_of_the_document_from_creating_a_queue_to_finishing_a_job(rig: JobRig) -> None:
    queue = rig.jobs("create_queue", rig.super, NWOT_JOB_QUEUE, "WALK", "SYS:SYSTEM")
    walk = (NWOT_JOB_QUEUE, "WALK")
    rig.bindery("create_object", rig.super, NWOT_JOB_SERVER, "WALKER")
    rig.bindery("change_object_password", rig.super, NWOT_JOB_SERVER, "WALKER", "", "pw")
    rig.bindery("add_object_to_set", rig.super, *walk, Q_SERVERS, NWOT_JOB_SERVER, "WALKER")
    rig.bindery("add_object_to_set", rig.super, *walk, "Q_USERS", 2, "EVERYONE")
    rig.bindery("add_object_to_set", rig.super, *walk, "Q_OPERATORS", NWOT_USER, "SUPERVISOR")
    eva = rig.user("EVA")
    job = rig.jobs("create_queue_file", eva, queue, NWQueueJobStruct(job_description=b"walk"))
    rig.jobs("write_file", eva, job.job_file_handle, 0, b"steps")
    rig.jobs("close_file_and_start_queue_job", eva, queue, job.job_number)
    server = rig.station()
    rig.bindery("login", server, NWOT_JOB_SERVER, "WALKER", "pw")
    rig.jobs("attach_queue_server_to_queue", server, queue)
    assert rig.jobs("read_queue_current_status", server, queue).jobs == 1
    (number,) = rig.jobs("get_queue_job_list", server, queue).numbers
    assert rig.jobs("read_queue_job_entry", server, queue, number).description == "walk"
    taken = rig.jobs("service_queue_job", server, queue)
    assert rig.jobs("read_file", server, taken.job_file_handle, 0, 512) == b"steps"
    rig.jobs("finish_servicing_queue_job", server, queue, number)
    rig.jobs("detach_queue_server_from_queue", server, queue)
    assert rig.numbers(queue) == []
