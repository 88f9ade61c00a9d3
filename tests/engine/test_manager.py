"""The queue manager itself: start, identity, turns, stop."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from posthouse.directory.objects import Enterprise, Site
from posthouse.engine.ledger.records import TABLE_MANAGER, Change
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager, QueueManagerState
from posthouse.engine.queues.queue import DEADLETTER, DEADXACT, JOURNAL
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import OperationCancelled, ServiceNotAvailable
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.security.access import Caller
from tests.engine.rig import RECEIVE, Rig
from tests.engine.settings import engine_settings


@pytest.fixture
def rig() -> Rig:
    return Rig()


def unstarted(name: str = "ALPHA") -> QueueManager:
    return QueueManager(
        EngineSettings(name), State(), lambda number: b"", bytes, lambda numbers: []
    )


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/18")
def test_only_a_ready_queue_manager_serves() -> None:
    manager = unstarted()
    assert manager.machine.state is QueueManagerState.STOPPED
    admin = Caller.administrator()
    with pytest.raises(ServiceNotAvailable, match="stopped"):
        manager.queues.create_queue(r".\private$\q", QueueProperties(), admin)
    manager.start(0, 1_700_000_000)
    assert manager.machine.state is QueueManagerState.READY
    manager.queues.create_queue(r".\private$\q", QueueProperties(), admin)
    manager.stop()
    assert manager.machine.state is QueueManagerState.STOPPED
    with pytest.raises(ServiceNotAvailable):
        manager.queues.open_queue(r".\private$\q", RECEIVE, admin)


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/18")
def test_nothing_is_served_while_it_initializes_or_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[QueueManagerState, str]] = []

    def ask() -> None:
        with pytest.raises(ServiceNotAvailable) as refused:
            manager.queues.create_queue(
                r".\private$\early", QueueProperties(), Caller.administrator()
            )
        seen.append((manager.machine.state, str(refused.value)))

    def random_bytes(count: int) -> bytes:
        if made and not seen:  # the first start makes the identity
            ask()
        return bytes(count)

    made: list[QueueManager] = []
    manager = QueueManager(
        EngineSettings("ALPHA"), State(), lambda number: b"", random_bytes, lambda numbers: []
    )
    made.append(manager)
    manager.start(0, 1_700_000_000)
    manager.queues.create_queue(r".\private$\q", QueueProperties(), Caller.administrator())
    keep_all = manager.sessions.keep_all

    def keep_and_ask() -> None:
        ask()
        keep_all()

    monkeypatch.setattr(manager.sessions, "keep_all", keep_and_ask)  # a step of the stop
    manager.stop()
    assert [one for one, _ in seen] == [QueueManagerState.INITIALIZING, QueueManagerState.STOPPING]
    assert "initializing" in seen[0][1]
    assert "stopping" in seen[1][1]


@pytest.mark.spec("MS-MQDMPR 3.1.3/3", "MS-MQDMPR 3.1.4.1/1", "MS-MQDMPR 3.1.3/22")
def test_a_machine_without_identity_does_not_become_ready_and_the_caller_gets_the_error() -> None:
    manager = unstarted("")
    with pytest.raises(ServiceNotAvailable, match="no name"):
        manager.start(5_000, 1_700_000_000)
    assert manager.machine.state is QueueManagerState.STOPPED
    assert not manager.ledger.queues


@pytest.mark.spec("MS-MQDMPR 3.1.3/1", "MS-MQDMPR 3.1.3/2")
def test_names_come_from_the_settings() -> None:
    settings = engine_settings("ALPHA", dns_domain="example.com", aliases=("post",))
    assert settings.qualified_computer_name == "ALPHA.example.com"
    assert {"alpha", "alpha.example.com", "post", "localhost", "127.0.0.1"} <= settings.own_names
    assert EngineSettings("ALPHA").qualified_computer_name == "ALPHA"


@pytest.mark.spec("MS-MQDMPR 3.1.1/4")
def test_the_identity_is_made_once_and_kept(rig: Rig) -> None:
    guid = rig.manager.machine.identifier
    assert guid[7] >> 4 == 4
    assert guid[8] >> 6 == 2
    rig.restart()
    assert rig.manager.machine.identifier == guid
    assert rig.manager.machine.record.starts == 2


def test_a_record_of_version_0_1_is_read(rig: Rig) -> None:
    """It kept attributes that settings have now, and some that nothing used."""
    guid = rig.manager.machine.identifier
    old = {
        "identifier": guid,
        "create_time": 5,
        "sequence_timestamp": 7,
        "initialization_retry_s": 240,
        "last_domain": b"d" * 16,
        "directory_server_list": ["DC1"],
        "directory_integrated": False,
        "srmp_http_support": True,
        "hardened_security": True,
        "starts": 3,
    }

    def write(manager: QueueManager) -> None:
        change = Change()
        manager.ledger.define(TABLE_MANAGER, b"manager", msgspec.msgpack.encode(old), change)
        manager.ledger.commit(change)

    rig.run(write)
    rig.restart()
    record = rig.manager.machine.record
    assert (record.identifier, record.create_time, record.starts) == (guid, 5, 4)


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/19")
def test_the_system_queues_are_there_from_the_start(rig: Rig) -> None:
    names = {number: rig.manager.ledger.queues[number].name for number in (1, 2, 3)}
    assert names == {
        DEADLETTER: r"ALPHA\system$;deadletter",
        DEADXACT: r"ALPHA\system$;deadxact",
        JOURNAL: r"ALPHA\system$;journal",
    }


@pytest.mark.spec("MS-MQDMPR 3.1.4.2/1")
def test_stopping_ends_waits_and_leaves_the_queues_alone(rig: Rig) -> None:
    rig.create("orders")
    rig.create("empty")
    rig.send("orders", b"one")
    answers = rig.wait(rig.open("empty", RECEIVE))
    before = rig.manager.ledger.state.dump()
    rig.driver.close()
    (answer,) = answers
    assert isinstance(answer.error, OperationCancelled)
    assert rig.manager.ledger.state.dump() == before


def test_a_jump_of_the_date_is_told_to_the_operator(rig: Rig) -> None:
    rig.clock.step_utc(3600)
    rig.turn()
    rig.clock.step_utc(-7200)
    rig.turn()
    rig.advance(10)
    steps = [event.details["seconds"] for event in rig.events if event.name == "clock_step"]
    assert steps == [3600, -7200]


def test_the_next_deadline_is_the_earliest_timer(rig: Rig) -> None:
    rig.create("orders")
    opened = rig.open("orders", RECEIVE)
    rig.wait(opened, timeout_ms=7_000)
    assert rig.manager.next_deadline_ms() == 7_000
    rig.send("orders", b"late", time_to_be_received=3)
    rig.create("other")
    rig.send("other", b"late", time_to_be_received=3)
    assert rig.manager.next_deadline_ms() == 3_000


def test_a_deadline_that_moved_is_known_without_asking_everything(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, asked = rig.manager, list[int]()
    ask = manager.earliest_deadlines

    def noted() -> tuple[float, float]:
        asked.append(1)
        return ask()

    rig.create("orders")
    opened = rig.open("orders", RECEIVE)
    assert manager.next_deadline_ms() == 3_600_000
    rig.wait(opened, timeout_ms=7_000)
    assert manager.deadline_moved()
    monkeypatch.setattr(manager, "earliest_deadlines", noted)
    assert manager.noted_deadline_ms() == 7_000
    assert not manager.deadline_moved()
    rig.create("other")
    rig.send("other", b"late", time_to_be_received=3)
    asked.clear()  # the rig asks at the end of each turn
    assert manager.noted_deadline_ms() == 3_000
    assert asked == []
    manager.ledger.deadlines.note(-inf)  # something is due now: everything is asked
    assert manager.noted_deadline_ms() == 3_000
    assert asked == [1]


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/23")
def test_no_counter_gives_a_number_twice_over_kills_and_restarts(rig: Rig) -> None:
    rig.create("orders")
    lookup_ids: list[int] = []
    ordinals: list[int] = []
    for _ in range(4):
        ordinals.extend(rig.send("orders", b"x").ordinal for _ in range(3))
        lookup_ids.extend(rig.receive("orders").read.lookup_id for _ in range(3))
        rig.restart()
    assert lookup_ids == sorted(set(lookup_ids))
    assert ordinals == sorted(set(ordinals))
    assert max(lookup_ids) < 1 << 56


@pytest.mark.spec("MS-MQDMPR 3.1.1.6/1")
def test_messages_get_the_enterprise_time_to_reach_their_queue(rig: Rig) -> None:
    rig.create("orders")
    rig.send("orders", b"before")
    enterprise = Enterprise(name="corp", default_time_to_live=90)
    service = rig.manager.directory.service
    now = rig.clock.now_ms, rig.clock.utc_seconds
    rig.run(lambda m: service.create_directory_object(enterprise, *now))
    rig.restart()
    rig.send("orders", b"after")
    rig.send("orders", b"less", time_to_reach_queue=30)
    times = [message.time_to_reach_queue for message in rig.messages("orders")]
    assert times == [345_600, 90, 30]


def test_the_enterprise_bounds_the_next_message_of_an_idle_manager(rig: Rig) -> None:
    """The change comes with the directory's own turn; nothing else happens before the message."""
    rig.create("orders")
    service = rig.manager.directory.service
    now = rig.clock.now_ms, rig.clock.utc_seconds
    enterprise = Enterprise(name="corp", default_time_to_live=90)
    rig.run(lambda m: service.create_directory_object(enterprise, *now))
    rig.run(lambda m: service.refreshed([enterprise], now[0]))
    assert rig.manager.ledger.time_to_reach_queue_max == 90
    rig.send("orders", b"after")
    (message,) = rig.messages("orders")
    assert message.time_to_reach_queue == 90


def test_a_change_of_the_directory_is_told_to_what_waits_for_a_way(rig: Rig) -> None:
    names = [rf"DIRECT=OS:BRAVO\private$\{name}" for name in ("full", "empty")]
    rig.send(names[0], b"waits")
    rig.close(rig.open(names[1]))
    full = rig.manager.queues.find_outgoing(parse_format_name(names[0]))
    assert full is not None
    rig.active.clear()
    rig.turn()
    assert rig.active == set()
    north = Site(identifier=b"n" * 16, name="North")
    rig.run(lambda m: m.directory.service.create_directory_object(north, 0, 0))
    assert rig.active == {full.number}
    rig.active.clear()
    rig.turn()
    assert rig.active == set()
