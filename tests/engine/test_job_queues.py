"""Creating Queues in the Bindery: queues, their directories and their status (QMS; qms-facts 5)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.bindery import (
    NWOT_ARCHIVE_QUEUE,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_USER,
    NWOT_USER_GROUP,
    Q_DIRECTORY,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    SECURITY_EQUALS,
)
from posthouse.model.qms import NWCF_SERVICE_RESTART, NWQueueJobStruct, queue_directory
from tests.engine.job_rig import PATH, JobRig

QUEUE = (NWOT_JOB_QUEUE, "JOBS")


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


def add(rig: JobRig, prop: str, kind: int, name: str) -> None:
    rig.bindery("add_object_to_set", rig.super, *QUEUE, prop, kind, name)


def drop(rig: JobRig, prop: str, kind: int, name: str) -> None:
    rig.bindery("delete_object_from_set", rig.super, *QUEUE, prop, kind, name)


# -- creating and destroying


@pytest.mark.spec(
    "QMS Creating Queues/1", "QMS Creating Queues/2", "NCP 0x64/2", "QMS Supervisors/1"
)
def test_only_supervisors_create_queues(rig: JobRig) -> None:
    made = rig.jobs("create_queue", rig.super, NWOT_PRINT_QUEUE, "P", PATH)
    assert rig.bindery("get_object_name", rig.super, made).name == "P"
    for station in (rig.user("ANNA"), rig.user("OTTO"), rig.server("SRV1"), rig.station()):
        with rig.completion(0xD3):
            rig.jobs("create_queue", station, NWOT_PRINT_QUEUE, "X", PATH)
        with rig.completion(0xD3):
            rig.jobs("destroy_queue", station, made)
    args = (NWOT_USER, "EVA", SECURITY_EQUALS, NWOT_USER, "SUPERVISOR")
    rig.bindery("add_object_to_set", rig.super, *args)
    rig.jobs("create_queue", rig.user("EVA"), NWOT_PRINT_QUEUE, "X", PATH)


@pytest.mark.spec("NCP 0x64/2", "NCP 0x64/3", "QMS Q_DIRECTORY/3", "QMS Q_DIRECTORY/8")
def test_paths_and_handles_are_checked(rig: JobRig) -> None:
    create = ("create_queue", rig.super, NWOT_PRINT_QUEUE)
    for path in ("", "P" * 119, "SYS:Ä", "SYS:\n"):
        with rig.completion(0x9C):
            rig.jobs(*create, "P", path)
    with rig.completion(0x9B):
        rig.jobs(*create, "P", PATH, 1)
    with rig.completion(0xEE):
        rig.jobs("create_queue", rig.super, *QUEUE, PATH)
    with rig.completion(0xEF):
        rig.jobs(*create, "A B", PATH)
    with rig.completion(0xF0):
        rig.jobs("create_queue", rig.super, 0xFFFF, "P", PATH)
    rig.jobs(*create, "P", "P" * 118)


@pytest.mark.spec("QMS Q_DIRECTORY/5", "QMS Q_DIRECTORY/6", "QMS Q_DIRECTORY/7")
@pytest.mark.spec("QMS Q_DIRECTORY/9", "QMS Q_DIRECTORY/4")
def test_the_directory_is_below_the_path_and_named_by_the_id(rig: JobRig) -> None:
    for at, path in enumerate(("SYS:SYSTEM", "VOL1:\\A\\", "P" * 118)):
        made = rig.jobs("create_queue", rig.super, NWOT_PRINT_QUEUE, f"P{at}", path)
        args = (NWOT_PRINT_QUEUE, f"P{at}", Q_DIRECTORY)
        value = rig.bindery("read_property_value", rig.super, *args, 1)
        text, nul, rest = value.value.partition(b"\0")
        separator = "" if path.endswith("\\") else "\\"
        assert text.decode() == f"{path}{separator}{made:08X}"
        assert nul == b"\0"
        assert not rest.strip(b"\0")
        assert (len(value.value), value.more, value.flags) == (128, False, 0)
        with rig.completion(0xEC):
            rig.bindery("read_property_value", rig.super, *args, 2)


@pytest.mark.spec("QMS Table 24/1")
def test_the_directory_of_table_24_has_eight_digits() -> None:
    assert queue_directory("SYS:\\SYSTEM", 0x015D03) == "SYS:\\SYSTEM\\00015D03"
    assert queue_directory("SYS:", 0x015D03) == "SYS:00015D03"


@pytest.mark.spec("QMS Creating Queues/10", "NCP 0x65/1", "NCP 0x65/2")
@pytest.mark.parametrize("way", ["destroy", "delete"])
def test_a_destroyed_queue_takes_everything_along(rig: JobRig, way: str) -> None:
    rig.submit(b"one", job_control_flags=NWCF_SERVICE_RESTART)
    opened = rig.open_job()
    server = rig.attach()
    job = rig.service()
    if way == "destroy":
        rig.jobs("destroy_queue", rig.super, rig.q)
    else:
        rig.bindery("delete_object", rig.super, *QUEUE)
    assert rig.outcomes() == {1: "destroyed", 2: "destroyed"}
    assert server.attached == {}
    for station, handle in (
        (server, job.job_file_handle),
        (rig.user("ANNA"), opened.job_file_handle),
    ):
        with rig.completion(0x88):
            rig.jobs("file_size", station, handle)
    with rig.completion(0xD1):
        rig.jobs("destroy_queue", rig.super, rig.q)
    with rig.completion(0xFC):
        rig.bindery("get_object_id", rig.super, *QUEUE)
    rig.check()
    rig.restart()
    rig.check()
    assert rig.manager.jobs.queues == {}
    assert rig.jobs("create_queue", rig.super, *QUEUE, PATH) != rig.q


@pytest.mark.spec("NCP 0x65/2")
def test_an_id_that_is_no_queue_is_no_queue_for_every_call(rig: JobRig) -> None:
    rig.bindery("create_object", rig.super, NWOT_PRINT_QUEUE, "FAKE")
    fake = rig.bindery("get_object_id", rig.super, NWOT_PRINT_QUEUE, "FAKE").id
    job, anna = NWQueueJobStruct(), rig.user("ANNA")
    calls: list[tuple[Any, ...]] = [
        ("destroy_queue",),
        ("read_queue_current_status",),
        ("set_queue_current_status", 0),
        ("create_queue_file", job),
        ("submit_job", job, b""),
        ("close_file_and_start_queue_job", 1),
        ("remove_job_from_queue", 1),
        ("get_queue_job_list",),
        ("read_queue_job_entry", 1),
        ("change_queue_job_entry", job),
        ("change_queue_job_position", 1, 1),
        ("attach_queue_server_to_queue",),
        ("detach_queue_server_from_queue",),
        ("service_queue_job", None),
        ("finish_servicing_queue_job", 1),
        ("abort_servicing_queue_job", 1),
        ("change_to_client_rights", 1),
        ("read_queue_server_current_status", 1, 1),
        ("set_queue_server_current_status", bytes(64)),
        ("get_queue_job_size", 1),
        ("move_queue_job", 1, rig.q),
    ]
    for name, *rest in calls:
        for queue in (fake, 0, 0xFFFFFFFF):
            with rig.completion(0xD1):
                rig.jobs(name, anna, queue, *rest)


def test_the_number_of_queues_is_a_setting() -> None:
    rig = JobRig(qms=QmsSettings(queues_max=1))
    with rig.completion(0x96):
        rig.jobs("create_queue", rig.super, NWOT_PRINT_QUEUE, "P", PATH)


@pytest.mark.spec("QMS Queue Object/4")
@pytest.mark.parametrize("kind", [NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE, NWOT_JOB_QUEUE, 0x4321])
def test_a_queue_of_any_type_takes_jobs_of_any_job_type(rig: JobRig, kind: int) -> None:
    queue = rig.create_jobs("OTHER", kind)
    for job_type in (0, 1, 0xFFFE, 0xFFFF):
        rig.submit(queue=queue, job_type=job_type)
    assert len(rig.numbers(queue)) == 4


# -- who may submit


@pytest.mark.spec("QMS Q_USERS/1", "QMS Submitting/1", "NCP 0x79/2")
@pytest.mark.spec("QMS Queues and the Bindery/3", "QMS Supervisors/2", "QMS Q_USERS/6")
def test_members_of_q_users_submit_and_nobody_else(rig: JobRig) -> None:
    rig.submit()
    for station in (
        rig.user("OTTO"),
        rig.user("EVA"),
        rig.server("SRV1"),
        rig.super,
        rig.station(),
    ):
        with rig.completion(0xD3):
            rig.jobs("create_queue_file", station, rig.q, NWQueueJobStruct())
        with rig.completion(0xD3):
            rig.jobs("submit_job", station, rig.q, NWQueueJobStruct(), b"x")
    assert rig.numbers() == [1]
    add(rig, Q_USERS, NWOT_USER, "SUPERVISOR")
    made = rig.jobs("submit_job", rig.super, rig.q, NWQueueJobStruct(job_type=7), b"x")
    assert (made.job_number, made.client_id) == (2, rig.super.object_id)
    rig.attach()
    job = rig.service(types=[7])
    assert job.job_number == made.job_number
    assert rig.jobs("read_file", rig.server("SRV1"), job.job_file_handle, 0, 9) == b"x"


@pytest.mark.spec("QMS Q_USERS/3", "QMS Q_USERS/4", "QMS Queue Properties/2", "QMS Q_USERS/2")
def test_groups_and_equivalents_of_members_submit(rig: JobRig) -> None:
    rig.group("SALES", "EVA")
    add(rig, Q_USERS, NWOT_USER_GROUP, "SALES")
    rig.submit(who="EVA")
    rig.membership("delete_object_from_set", "SALES", "EVA")
    with rig.completion(0xD3):
        rig.jobs("create_queue_file", rig.user("EVA"), rig.q, NWQueueJobStruct())
    args = (NWOT_USER, "EVA", SECURITY_EQUALS, NWOT_USER, "ANNA")
    rig.bindery("add_object_to_set", rig.super, *args)
    rig.submit(who="EVA")


@pytest.mark.spec("QMS Q_USERS/7", "QMS Q_USERS/8", "QMS Q_USERS/9")
def test_everyone_opens_a_queue_and_an_empty_set_closes_it(rig: JobRig) -> None:
    for name in ("ANNA", "BERT"):
        drop(rig, Q_USERS, NWOT_USER, name)
    for who in ("ANNA", "EVA"):
        with rig.completion(0xD3):
            rig.jobs("create_queue_file", rig.user(who), rig.q, NWQueueJobStruct())
    add(rig, Q_USERS, NWOT_USER_GROUP, "EVERYONE")
    for who in ("ANNA", "EVA", "SUPERVISOR"):
        rig.submit(who=who)
    rig.bindery("delete_property", rig.super, *QUEUE, Q_USERS)
    rig.submit(who="EVA")
    rig.jobs("submit_job", rig.server("SRV1"), rig.q, NWQueueJobStruct(), b"x")
    with rig.completion(0xD3):  # any object may, and this is none
        rig.jobs("create_queue_file", rig.station(), rig.q, NWQueueJobStruct())


# -- status


@pytest.mark.spec("NCP queue status/1", "NCP 0x79/3", "QMS Q_OPERATORS/3", "QMS Creating Queues/6")
def test_no_jobs_are_added_while_an_operator_does_not_want_any(rig: JobRig) -> None:
    rig.submit()
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0x01)
    with rig.completion(0xDA):
        rig.jobs("create_queue_file", rig.user("ANNA"), rig.q, NWQueueJobStruct())
    with rig.completion(0xDA):
        rig.jobs("submit_job", rig.user("ANNA"), rig.q, NWQueueJobStruct(), b"")
    rig.attach()
    rig.finish(rig.service().job_number)
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0)
    rig.submit()


@pytest.mark.spec("NCP queue status/2", "NCP 0x6F/2")
def test_no_servers_attach_while_an_operator_does_not_want_any(rig: JobRig) -> None:
    rig.submit()
    rig.attach("SRV1")
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0x02)
    with rig.completion(0xDA):
        rig.attach("SRV2")
    rig.attach("SRV1")  # attached ones stay
    rig.finish(rig.service().job_number)


@pytest.mark.spec("NCP queue status/3", "NCP 0x7C/3")
def test_no_job_is_serviced_while_an_operator_does_not_want_it(rig: JobRig) -> None:
    rig.submit()
    rig.submit()
    rig.attach()
    first = rig.service()
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0x04)
    with rig.completion(0xDA):
        rig.service()
    data = rig.jobs("read_file", rig.server("SRV1"), first.job_file_handle, 0, 10)
    assert data == b"data"
    rig.finish(first.job_number)


@pytest.mark.spec("NCP 0x7D/2", "NCP 0x6F/1", "NCP 0x7E/1")
def test_the_status_tells_flags_jobs_and_servers_and_outlives_a_start(rig: JobRig) -> None:
    rig.submit()
    first, second = rig.attach("SRV1"), rig.attach("SRV2")
    rig.jobs("set_queue_current_status", rig.user("OTTO"), rig.q, 0xFB)
    status = rig.jobs("read_queue_current_status", rig.user("ANNA"), rig.q)
    assert status.queue_id == rig.q
    assert (status.status, status.jobs) == (0x03, 1)  # bits that mean nothing are lost
    assert set(status.servers) == {(s.object_id, s.number) for s in (first, second)}
    rig.restart()
    status = rig.jobs("read_queue_current_status", rig.user("ANNA"), rig.q)
    assert (status.status, status.jobs, status.servers) == (0x03, 1, ())


@pytest.mark.spec("QMS Q_OPERATORS/1", "QMS Q_OPERATORS/5", "QMS Queues and the Bindery/3")
def test_without_operators_nobody_manages_a_queue(rig: JobRig) -> None:
    number = rig.submit()
    drop(rig, Q_OPERATORS, NWOT_USER, "OTTO")
    for station in (rig.user("OTTO"), rig.super):
        with rig.completion(0xD3):
            rig.jobs("set_queue_current_status", station, rig.q, 1)
        with rig.completion(0xD6):
            rig.jobs("change_queue_job_position", station, rig.q, number, 1)
    add(rig, Q_OPERATORS, NWOT_USER, "SUPERVISOR")
    rig.jobs("set_queue_current_status", rig.super, rig.q, 1)


@pytest.mark.spec(
    "QMS Q_SERVERS/1", "QMS Q_SERVERS/2", "QMS Creating Queues/5", "QMS Queues and the Bindery/3"
)
def test_without_servers_jobs_wait(rig: JobRig) -> None:
    for name in ("SRV1", "SRV2"):
        drop(rig, Q_SERVERS, NWOT_JOB_SERVER, name)
    rig.submit()
    for name in ("SRV1", "SRV2"):
        with rig.completion(0xD3):
            rig.attach(name)
        with rig.completion(0xD9):
            rig.service(name)
    with rig.completion(0xD3):
        rig.jobs("attach_queue_server_to_queue", rig.super, rig.q)
    assert rig.numbers() == [1]


@pytest.mark.spec("QMS Queue Properties/2", "QMS Q_SERVERS/1")
def test_a_server_that_is_taken_from_the_set_gets_no_more_jobs(rig: JobRig) -> None:
    rig.submit()
    rig.submit()
    rig.attach()
    first = rig.service()
    drop(rig, Q_SERVERS, NWOT_JOB_SERVER, "SRV1")
    with rig.completion(0xD3):
        rig.service()
    rig.finish(first.job_number)  # what it has it may finish


def test_queues_are_listed_with_what_the_caller_may_know(rig: JobRig) -> None:
    rig.submit()
    (seen,) = rig.jobs("list_queues", rig.user("ANNA"))
    assert (seen.id, seen.name, seen.jobs) == (rig.q, "JOBS", 1)
    (seen,) = rig.jobs("list_queues", rig.user("EVA"))
    assert (seen.name, seen.jobs) == ("JOBS", 0)
    assert rig.manager.jobs.find_queue("jobs") == rig.q
    with rig.completion(0xD1):
        rig.jobs("find_queue", "NONE")
