"""What NCP shows clients that have not logged in: neither job queues nor who exists (F18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.client.ncp.calls import NcpCalls
from posthouse.engine.jobs.bindery.objects import FIRST_ID
from posthouse.model.bindery import NWOT_FILE_SERVER, NWOT_USER, NWOT_WILD
from posthouse.model.errors import QmsError
from tests.protocols.job_queue.rig import JOB_QUEUE, PASSWORD, NcpRig
from tests.protocols.job_queue.walk import refused


@pytest.fixture
def rig() -> NcpRig:
    """As a server is by default."""
    rig = NcpRig(names=False)
    rig.user("ALICE")
    rig.queue("PAYROLL", users="ALICE")
    return rig


def completion(call: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    with pytest.raises(QmsError) as caught:
        call(*arguments, **options)
    return caught.value.completion


def scanned(client: NcpCalls) -> list[str]:
    names, last = [], 0xFFFFFFFF
    while True:
        try:
            found = client.scan_object(last, NWOT_WILD, "*")
        except QmsError:
            return names
        names.append(found.name)
        last = found.id


@pytest.mark.spec("QMS Queue Object/6")
def test_a_stranger_sees_the_server_and_nothing_else(rig: NcpRig) -> None:
    stranger = rig.client()
    assert scanned(stranger) == ["ALPHA"]
    known = rig.logged_in("ALICE")
    assert {"ALPHA", "ALICE", "PAYROLL"} <= set(scanned(known))


def test_calls_of_a_stranger_answer_alike_whether_an_object_exists(rig: NcpRig) -> None:
    stranger = rig.client()
    for there, name, kind in (("PAYROLL", "NOTHERE", JOB_QUEUE), ("ALICE", "NOBODY", NWOT_USER)):
        for call in (
            lambda n, k: stranger.scan_property(n, k, "*"),
            lambda n, k: stranger.read_property_value(n, k, "Q_USERS", 1),
            lambda n, k: stranger.delete_object(n, k),
            lambda n, k: stranger.change_object_security(n, k, 0x31),
            lambda n, k: stranger.add_object_to_set(n, k, "Q_USERS", "ALICE", NWOT_USER),
        ):
            assert completion(call, there, kind) == completion(call, name, kind)
    for object_id in (stranger.get_object_id("ALICE", NWOT_USER), 0x7777):
        assert completion(stranger.get_object_name, object_id) == 0xFC
    assert stranger.get_object_id("ALPHA", NWOT_FILE_SERVER)


def test_any_name_has_an_id_for_a_stranger_always_the_same_among_those_in_use(rig: NcpRig) -> None:
    stranger, known = rig.client(), rig.logged_in("ALICE")
    made_up = {name: stranger.get_object_id(name, NWOT_USER) for name in ("A", "B", "C", "D")}
    alice = stranger.get_object_id("ALICE", NWOT_USER)
    assert alice == known.get_object_id("ALICE", NWOT_USER)
    assert all(FIRST_ID <= one < FIRST_ID + 64 for one in (*made_up.values(), alice))
    assert len(set(made_up.values())) > 1
    refused(0xFC, known.get_object_id, "A", NWOT_USER)
    rig.restart()
    after = rig.client()
    assert {name: after.get_object_id(name, NWOT_USER) for name in made_up} == made_up


@pytest.mark.spec("NCP 0x18/1", "NCP 0x18/2")
def test_a_wrong_password_an_unknown_name_and_a_shut_door_are_answered_alike(rig: NcpRig) -> None:
    rig.user("BOB")
    account = rig.manager.accounts.find("BOB")
    rig.run(lambda m: m.accounts.replace(replace(account, disabled=True)))
    for name in ("ALICE", "NOBODY", "BOB"):
        client = rig.client(address=f"192.0.2.{len(name)}")
        codes = [completion(client.login, name, password="WRONG") for _ in range(7)]
        assert codes == [0xFF] * 5 + [0xC5] * 2, name
    rig.logged_in("ALICE", password=PASSWORD)


def test_failures_under_one_made_up_name_do_not_make_another_wait(rig: NcpRig) -> None:
    """A wait that all made-up names shared would show which names are not made up."""
    client = rig.client()
    for _ in range(6):
        completion(client.login, "NOBODY", password="WRONG")
    assert completion(client.login, "SOMEBODY", password="WRONG") == 0xFF
