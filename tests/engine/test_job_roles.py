"""Table 27: who may do what with a queue and its jobs, for every role (qms-facts 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct
from tests.engine.job_rig import JobRig

ROLES = ("owner", "user", "operator", "server", "servicing", "stranger", "supervisor", "nobody")
RIGHTS, JOB_RIGHTS, NOT_SERVER = 0xD3, 0xD6, 0xD9


def station_of(rig: JobRig, role: str) -> Station:
    makers: dict[str, Callable[[], Station]] = {
        "owner": lambda: rig.user("ANNA"),
        "user": lambda: rig.user("BERT"),
        "operator": lambda: rig.user("OTTO"),
        "server": lambda: rig.server("SRV2"),
        "servicing": lambda: rig.server("SRV1"),
        "stranger": lambda: rig.user("EVA"),
        "supervisor": lambda: rig.super,
        "nobody": rig.station,
    }
    return makers[role]()


class Row(NamedTuple):
    """A task of the table: who may, and what the others get."""

    rule: str
    method: str
    arguments: tuple[Any, ...]
    allowed: frozenset[str]
    refusal: int


WAITING, SERVICED = 2, 1  # numbers of jobs that ANNA has submitted


def row(rule: str, method: str, *arguments: Any, who: str, refusal: int = RIGHTS) -> Row:
    return Row(rule, method, arguments, frozenset(who.split()), refusal)


VIEWERS = "owner user operator server servicing"
TABLE = [
    row(
        "QMS Table 27/1", "remove_job_from_queue", WAITING, who="owner operator", refusal=JOB_RIGHTS
    ),
    row("QMS Table 27/2", "read_queue_job_entry", WAITING, who=VIEWERS),
    row("QMS Table 27/2", "get_queue_job_size", WAITING, who=VIEWERS),
    row("QMS Table 27/2", "details", WAITING, who=VIEWERS),
    row(
        "QMS Table 27/3",
        "change_queue_job_entry",
        NWQueueJobStruct(job_number=WAITING),
        who="owner operator",
        refusal=JOB_RIGHTS,
    ),
    row("QMS Table 27/4", "get_queue_job_list", who=VIEWERS),
    row(
        "QMS Table 27/5",
        "change_queue_job_position",
        WAITING,
        1,
        who="operator",
        refusal=JOB_RIGHTS,
    ),
    row("QMS Table 27/6", "read_queue_current_status", who=VIEWERS),
    row("QMS Table 27/7", "set_queue_current_status", 1, who="operator"),
    row(
        "QMS Table 27/9",
        "set_queue_server_current_status",
        b"s" * 64,
        who="servicing",
        refusal=NOT_SERVER,
    ),
]
MORE = [  # what the facts add to the table
    row("QMS Q_USERS/1", "create_queue_file", NWQueueJobStruct(), who="owner user"),
    row("NCP 0x6F/2", "attach_queue_server_to_queue", who="server servicing"),
    row("NCP 0x7C/3", "service_queue_job", None, who="servicing", refusal=NOT_SERVER),
    row("NCP 0x83/3", "finish_servicing_queue_job", SERVICED, who="servicing", refusal=NOT_SERVER),
    row("NCP 0x83/3", "abort_servicing_queue_job", SERVICED, who="servicing", refusal=NOT_SERVER),
    row("NCP 0x85/1", "change_to_client_rights", SERVICED, who="servicing", refusal=NOT_SERVER),
    row("NCP 0x65/2", "destroy_queue", who="supervisor"),
]


def cases(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(
            one,
            role,
            marks=pytest.mark.spec(one.rule),
            id=f"{one.rule.split()[-1]}-{one.method}-{role}",
        )
        for one in rows
        for role in ROLES
    ]


@pytest.mark.spec("QMS Queues and the Bindery/3", "QMS Supervisors/2")
@pytest.mark.parametrize(("one", "role"), cases(TABLE + MORE))
def test_each_role_may_what_the_table_gives_it_and_nothing_else(one: Row, role: str) -> None:
    rig = JobRig()
    rig.submit()
    rig.submit()
    rig.attach("SRV1")
    rig.service("SRV1")
    station = station_of(rig, role)
    if role in one.allowed:
        rig.jobs(one.method, station, rig.q, *one.arguments)
    else:
        with rig.completion(one.refusal):
            rig.jobs(one.method, station, rig.q, *one.arguments)
    rig.check()


@pytest.mark.spec("QMS Table 27/8", "NCP 0x86/1", "NCP 0x86/2")
@pytest.mark.parametrize("role", ROLES)
def test_users_and_operators_see_the_records_of_servers(role: str) -> None:
    rig = JobRig()
    server = rig.attach("SRV1")
    record = bytes(range(64))
    rig.jobs("set_queue_server_current_status", server, rig.q, record)
    read = ("read_queue_server_current_status", station_of(rig, role), rig.q)
    if role in ("owner", "user", "operator"):
        assert rig.jobs(*read, server.object_id, server.number) == record
        for server_id, number in ((server.object_id, 99), (99, server.number)):
            with rig.completion(0xD2):
                rig.jobs(*read, server_id, number)
    else:
        with rig.completion(RIGHTS):
            rig.jobs(*read, server.object_id, server.number)


@pytest.mark.spec("QMS Monitoring/1", "QMS Monitoring/2", "QMS Monitoring/3", "QMS Monitoring/4")
@pytest.mark.spec("QMS Creating Queues/7", "NCP 0x80/2")
def test_users_control_their_own_jobs_and_view_those_of_others() -> None:
    rig = JobRig()
    mine, others = rig.submit(who="ANNA"), rig.submit(who="BERT")
    anna = rig.user("ANNA")
    assert rig.jobs("read_queue_job_entry", anna, rig.q, others).client_id
    for call in (
        ("remove_job_from_queue", anna, rig.q, others),
        ("change_queue_job_entry", anna, rig.q, NWQueueJobStruct(job_number=others)),
    ):
        with rig.completion(JOB_RIGHTS):
            rig.jobs(*call)
    rig.jobs("change_queue_job_entry", anna, rig.q, NWQueueJobStruct(job_number=mine))
    rig.jobs("remove_job_from_queue", anna, rig.q, mine)
    otto = rig.user("OTTO")
    rig.jobs("change_queue_job_entry", otto, rig.q, NWQueueJobStruct(job_number=others))
    rig.jobs("remove_job_from_queue", otto, rig.q, others)


@pytest.mark.spec("QMS Table 27/3")
def test_a_server_changes_the_job_it_services_and_no_other() -> None:
    rig = JobRig()
    rig.submit()
    rig.submit()
    rig.attach("SRV1")
    rig.service("SRV1")
    server = rig.server("SRV1")
    rig.jobs("change_queue_job_entry", server, rig.q, NWQueueJobStruct(job_number=SERVICED))
    with rig.completion(JOB_RIGHTS):
        rig.jobs("change_queue_job_entry", server, rig.q, NWQueueJobStruct(job_number=WAITING))


@pytest.mark.parametrize("role", ROLES)
def test_nobody_but_the_caller_with_rights_learns_whether_a_job_exists(role: str) -> None:
    """A stranger gets the same refusal for jobs that are there and jobs that are not."""
    rig = JobRig()
    rig.submit()
    station = station_of(rig, role)
    codes = set()
    for number in (1, 99):
        try:
            rig.jobs("read_queue_job_entry", station, rig.q, number)
            codes.add(0)
        except QmsError as error:
            codes.add(error.completion)
    sees = role in VIEWERS.split()
    assert codes == ({0, 0xD5} if sees else {0xD3})
