"""What becomes of connections and objects when the accounts behind them change (decision 14)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from posthouse.model.bindery import (
    GROUP_MEMBERS,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    Q_SERVERS,
)
from posthouse.security.accounts import Door
from posthouse.security.sids import ADMINISTRATORS
from tests.engine.job_rig import JobRig

QUEUE = (NWOT_JOB_QUEUE, "JOBS")


@pytest.fixture
def rig() -> JobRig:
    return JobRig()


def change(rig: JobRig, name: str, **values: Any) -> None:
    account = msgspec.structs.replace(rig.manager.accounts.find(name), **values)
    rig.run(lambda m: m.accounts.replace(account))


def test_a_disabled_user_services_nothing_any_more(rig: JobRig) -> None:
    rig.bindery("add_object_to_set", rig.super, *QUEUE, Q_SERVERS, NWOT_USER, "EVA")
    first, second = rig.submit(b"one"), rig.submit(b"two")
    eva = rig.user("EVA")
    rig.jobs("attach_queue_server_to_queue", eva, rig.q)
    taken = rig.jobs("service_queue_job", eva, rig.q)
    change(rig, "EVA", disabled=True)
    assert eva.object_id == 0
    with rig.completion(0x88):
        rig.jobs("read_file", eva, taken.job_file_handle, 0, 10)
    with rig.completion(0xD9):
        rig.jobs("service_queue_job", eva, rig.q)
    assert rig.outcomes() == {first: "failed"}
    assert rig.numbers() == [second]


def test_a_disabled_user_neither_writes_nor_starts_what_he_has_open(rig: JobRig) -> None:
    job, anna = rig.open_job(), rig.user("ANNA")
    change(rig, "ANNA", disabled=True)
    with rig.completion(0x88):
        rig.jobs("write_file", anna, job.job_file_handle, 0, b"x")
    assert rig.outcomes() == {job.job_number: "abandoned"}


def test_who_loses_the_door_he_came_by_is_logged_out(rig: JobRig) -> None:
    rig.bindery("change_object_password", rig.super, NWOT_USER, "ANNA", "", "SECRET")
    station = rig.station()
    rig.bindery("login", station, NWOT_USER, "ANNA", "SECRET")
    change(rig, "ANNA", groups=())
    assert station.object_id
    change(rig, "ANNA", doors=(Door.HTTP,))
    assert station.object_id == 0
    assert rig.user("ANNA").object_id


def test_nobody_is_supervisor_by_his_name(rig: JobRig) -> None:
    account = rig.run(lambda m: m.accounts.add("supervisor"))
    station, caller = rig.station(), rig.manager.accounts.caller("supervisor")
    with rig.completion(0xFC):
        rig.bindery("enter", station, caller)
    rig.restart()
    assert rig.manager.bindery.objects.of_sid(account.sid) is None


def test_a_supervisor_who_is_no_administrator_any_more_is_nobody(rig: JobRig) -> None:
    rig.run(lambda m: m.accounts.add("supervisor", groups=(ADMINISTRATORS,)))
    station, caller = rig.station(), rig.manager.accounts.caller("supervisor")
    rig.bindery("enter", station, caller)
    assert rig.manager.bindery.is_supervisor(station)
    change(rig, "supervisor", groups=())
    assert not rig.manager.bindery.is_supervisor(station)
    change(rig, "supervisor", groups=(ADMINISTRATORS,))
    rig.bindery("enter", station, rig.manager.accounts.caller("supervisor"))
    assert rig.manager.bindery.is_supervisor(station)


def test_the_connections_of_a_removed_supervisor_are_nobodys(rig: JobRig) -> None:
    rig.run(lambda m: m.accounts.add("supervisor", groups=(ADMINISTRATORS,)))
    station = rig.station()
    rig.bindery("enter", station, rig.manager.accounts.caller("supervisor"))
    rig.run(lambda m: m.accounts.remove("supervisor"))
    assert not rig.manager.bindery.is_supervisor(station)


def test_users_are_added_though_everyone_has_lost_its_members(rig: JobRig) -> None:
    rig.bindery("delete_property", rig.super, NWOT_USER_GROUP, "EVERYONE", GROUP_MEMBERS)
    rig.bindery("create_object", rig.super, NWOT_USER, "NEW")
    value = rig.bindery(
        "is_object_in_set",
        *(rig.super, NWOT_USER_GROUP, "EVERYONE", GROUP_MEMBERS),
        *(NWOT_USER, "NEW"),
    )
    assert value


@pytest.mark.spec("NCP 0x6F/2")
def test_nobody_attaches_with_the_rights_of_his_client(rig: JobRig) -> None:
    other = rig.create_jobs("OTHER")
    queue = (NWOT_JOB_QUEUE, "OTHER", Q_SERVERS)
    rig.bindery("add_object_to_set", rig.super, *queue, NWOT_USER, "ANNA")
    rig.bindery("delete_object_from_set", rig.super, *queue, NWOT_JOB_SERVER, "SRV1")
    number, server = rig.submit(), rig.attach()
    rig.service()
    rig.jobs("change_to_client_rights", server, rig.q, number)
    with rig.completion(0xD3):
        rig.jobs("attach_queue_server_to_queue", server, other)
    rig.finish(number)
    with rig.completion(0xD9):
        rig.jobs("service_queue_job", server, other)
