"""R_QMMgmtAction ([MS-MQMR] 3.1.4.2): what it does, for whom, and what it refuses."""

from __future__ import annotations

import pytest

from posthouse.model.names import parse_format_name
from posthouse.model.properties import OutgoingQueueState
from posthouse.protocols.management.stubs import MACHINE, ManagedObject, ObjectType
from tests.engine.letters import FAR
from tests.protocols.management.rig import (
    ACCESS_DENIED,
    INVALID_PARAMETER,
    OK,
    QUEUE_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    ManagedRig,
    queue_object,
)

SESSION = ManagedObject(ObjectType.SESSION)
MACHINE_ACTIONS = ["CONNECT", "DISCONNECT", "TIDY"]
QUEUE_ACTIONS = ["PAUSE", "RESUME", "EOD_RESEND"]


@pytest.fixture
def rig() -> ManagedRig:
    made = ManagedRig()
    made.create("orders")
    return made


@pytest.mark.spec("MS-MQMR 3.1.4.2/4", "MS-MQMR 3.1.4.2/5", "MS-MQMR 3.1.4.2/1")
@pytest.mark.spec("MS-MQMR 3.1.4.2/3")
def test_the_machine_goes_offline_and_comes_back(rig: ManagedRig) -> None:
    assert rig.act(MACHINE, "DISCONNECT") == OK
    assert not rig.manager.transfer.connection_active
    assert rig.act(MACHINE, "connect") == OK
    assert rig.manager.transfer.connection_active
    told = [(event.name, event.details["by"]) for event in rig.events[-2:]]
    assert told == [("taken_offline", "root"), ("brought_online", "root")]


@pytest.mark.spec("MS-MQMR 3.1.4.2/6")
def test_tidy_gives_back_space_and_purges_nothing(rig: ManagedRig) -> None:
    rig.send("orders", b"one")
    rig.commit_sends("a")
    assert rig.act(MACHINE, "Tidy") == OK
    assert rig.tidied == 1
    assert rig.queue("orders").state.count == 1
    assert rig.waiting_bodies() == [b"a"]


@pytest.mark.spec("MS-MQMR 3.1.4.2/7", "MS-MQMR 3.1.4.2/8", "MS-MQMR 4/1")
def test_an_outgoing_queue_is_paused_and_resumed(rig: ManagedRig) -> None:
    rig.commit_sends("a")
    sender = rig.session()
    assert rig.act(queue_object(FAR), "PAUSE") == OK
    assert rig.outgoing()[1].state is OutgoingQueueState.ON_HOLD
    assert rig.take(sender) == []
    assert rig.act(queue_object(FAR), "Resume") == OK
    assert rig.outgoing()[1].state is OutgoingQueueState.CONNECTED
    assert rig.sent(sender) == [b"a"]


@pytest.mark.spec("MS-MQMR 3.1.4.2/10")
def test_what_is_not_acknowledged_is_sent_again(rig: ManagedRig) -> None:
    rig.commit_sends("ab")
    sender = rig.session()
    assert rig.sent(sender) == [b"a", b"b"]
    assert rig.sent(sender) == []
    assert rig.act(queue_object(FAR), "EOD_RESEND") == OK
    assert rig.sent(sender) == [b"a", b"b"]


@pytest.mark.spec("MS-MQMR 3.1.4.2/10")
def test_without_a_session_a_resend_asks_for_one(rig: ManagedRig) -> None:
    rig.commit_sends("a")
    number, outgoing = rig.outgoing()[0].number, rig.outgoing()[1]
    outgoing.retry_time = 1 << 40
    rig.active.clear()
    assert rig.act(queue_object(FAR), "EOD_RESEND") == OK
    assert outgoing.retry_time == rig.clock.utc_seconds
    assert number in rig.active


@pytest.mark.spec("MS-MQMR 3.1.4.2/9", "MS-MQMR 3.1.4.2/3")
@pytest.mark.parametrize("action", QUEUE_ACTIONS)
def test_queues_here_are_neither_paused_nor_sent(rig: ManagedRig, action: str) -> None:
    assert rig.act(queue_object("orders"), action) == UNSUPPORTED_OPERATION
    assert rig.act(queue_object("nowhere"), action) == QUEUE_NOT_FOUND
    assert rig.manager.queues.find_outgoing(parse_format_name(FAR)) is None


@pytest.mark.spec("MS-MQMR 3.1.4.2/2", "MS-MQMR 3.1.4/4")
@pytest.mark.parametrize("action", [*MACHINE_ACTIONS, *QUEUE_ACTIONS, "", "PURGE", "PAUSE "])
def test_other_actions_and_objects_are_invalid(rig: ManagedRig, action: str) -> None:
    rig.commit_sends("a")
    assert rig.act(SESSION, action) == INVALID_PARAMETER
    if action not in MACHINE_ACTIONS:
        assert rig.act(MACHINE, action) == INVALID_PARAMETER
    if action not in QUEUE_ACTIONS:
        assert rig.act(queue_object(FAR), action) == INVALID_PARAMETER
    assert rig.act(ManagedObject(ObjectType.QUEUE), action) == INVALID_PARAMETER


@pytest.mark.spec("MS-MQMR 3/1", "MS-MQMR 3/2")
@pytest.mark.parametrize("action", [*MACHINE_ACTIONS, *QUEUE_ACTIONS])
def test_only_administrators_act(rig: ManagedRig, action: str) -> None:
    rig.commit_sends("a")
    of = MACHINE if action in MACHINE_ACTIONS else queue_object(FAR)
    assert rig.act(of, action, by=rig.user("alice")) == ACCESS_DENIED
    assert rig.act(of, action, anonymous=True) == ACCESS_DENIED
    assert rig.tidied == 0
    assert rig.manager.transfer.connection_active
    assert rig.outgoing()[1].state is not OutgoingQueueState.ON_HOLD


def test_acts_are_told_for_the_audit_log(rig: ManagedRig) -> None:
    """Who, from where, what and what came of it; refused ones too."""
    rig.commit_sends("a")
    rig.act(queue_object(FAR), "PAUSE")
    rig.act(MACHINE, "TIDY", by=rig.user("alice"))
    rig.act(MACHINE, "X" * 5000)
    first, second, third = rig.acts
    assert (first.user, first.action, first.error) == ("root", "pause", None)
    assert first.address
    assert (second.user, second.action) == ("alice", "tidy")
    assert second.error is not None
    assert third.action == "unknown"  # made-up names do not make many kinds of entries
