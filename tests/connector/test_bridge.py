"""What connectors read, and what they say of it."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing

import pytest

import posthouse
from posthouse.client.manager import QueueManagerClient
from posthouse.connector import Connector, Parcel, Refused
from posthouse.model.errors import InvalidParameter, QueueNotFound, SharingViolation
from posthouse.model.message_classes import ACK_REACH_QUEUE, ACK_RECEIVE, NACK_ACCESS_DENIED
from tests.connector.foreign_site import LEDGER, ORDERS, SITE, SYSTEM, connect_streams, new_home

ANSWERS = r".\private$\answers"
DEAD = r".\system$;deadletter"


def answers(manager: QueueManagerClient) -> list[int]:
    return [message.message_class for message in manager.queue(ANSWERS).browse()]


@pytest.mark.parametrize("site", ["Streams", "streams", SITE, SITE.upper(), f"CONNECTOR={SITE}"])
def test_a_site_has_several_names(manager: QueueManagerClient, site: str) -> None:
    assert str(Connector(manager, site).name) == f"CONNECTOR={SITE}"


@pytest.mark.parametrize("site", ["Home", "", "nowhere", f"CONNECTOR={SITE};xactonly"])
def test_a_site_without_a_connector_queue_is_none(manager: QueueManagerClient, site: str) -> None:
    with pytest.raises(QueueNotFound, match="has no connector queue of the site"):
        Connector(manager, site)


def test_parcels_come_in_order_and_leave_with_what_is_said(manager: QueueManagerClient) -> None:
    orders = manager.queue(ORDERS)
    sent = orders.send_many([b"%d" % number for number in range(200)], recoverable=True)
    connector = Connector(manager, "Streams", batch=64)
    with closing(connector.parcels(timeout=0)) as parcels:
        seen: list[Parcel] = []
        for parcel in parcels:
            parcel.delivered()
            seen.append(parcel)
    assert [parcel.message.body for parcel in seen] == [b"%d" % number for number in range(200)]
    assert {parcel.destination for parcel in seen} == {ORDERS}
    assert [parcel.key for parcel in seen] == [f"{one}@{ORDERS}" for one in sent]
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0


def test_what_nothing_was_said_of_goes_back_in_its_place(manager: QueueManagerClient) -> None:
    orders = manager.queue(ORDERS)
    orders.send_many([b"1", b"2", b"3"])
    connector = Connector(manager, "Streams")
    with closing(connector.parcels(timeout=0)) as parcels:
        next(parcels).delivered()
        next(parcels)
    with closing(connector.parcels(timeout=0)) as parcels:
        parcel = next(parcels)
        assert parcel.message.body == b"2"
        with pytest.raises(InvalidParameter, match="is not a reason to refuse"):
            parcel.refused("no")
        with pytest.raises(InvalidParameter, match="is not settled"):
            next(parcels)
    assert manager.queue(f"CONNECTOR={SITE}").count() == 2


@pytest.mark.parametrize(
    ("say", "told"),
    [
        (Parcel.delivered, [ACK_REACH_QUEUE]),
        (Parcel.received, [ACK_REACH_QUEUE, ACK_RECEIVE]),
        (lambda parcel: parcel.refused("access-denied"), [NACK_ACCESS_DENIED]),
        (lambda parcel: parcel.refused("nack-access-denied"), [NACK_ACCESS_DENIED]),
    ],
)
def test_the_sender_hears_what_was_said(
    manager: QueueManagerClient, say: object, told: list[int]
) -> None:
    assert callable(say)
    manager.create_queue(ANSWERS)
    how = "pos-arrival,neg-arrival,pos-receive,neg-receive"
    manager.queue(ORDERS).send(b"x", admin_queue=ANSWERS, ack=how)
    with closing(Connector(manager, "Streams").parcels(timeout=0)) as parcels:
        say(next(parcels))
    assert answers(manager) == told


def test_a_word_that_is_no_refusal_is_told_at_once() -> None:
    for word in ("", "no", "ack-receive", "nack-"):
        with pytest.raises(InvalidParameter, match="is not a reason to refuse"):
            Refused(word)


def test_one_connector_at_a_time(manager: QueueManagerClient) -> None:
    manager.queue(ORDERS).send(b"x")
    with Connector(manager, "Streams") as first, closing(first.parcels(timeout=0)) as parcels:
        next(parcels)
        second = Connector(manager, "Streams")
        with pytest.raises(SharingViolation):
            next(second.parcels(timeout=0))
    with closing(second.parcels(timeout=0)) as parcels:
        assert next(parcels).message.body == b"x"


def test_a_run_hands_over_what_is_in_both_queues(manager: QueueManagerClient) -> None:
    manager.queue(ORDERS).send(b"plain")
    manager.queue(LEDGER).send(b"in a transaction", transactional=True)
    manager.queue(ORDERS).send(b"unwanted", dead_letter=True)
    connector, handed = Connector(manager, "Streams"), set[bytes]()
    lock = threading.Lock()

    def hand_over(parcel: Parcel) -> None:
        with lock:
            handed.add(parcel.message.body)
            if len(handed) == 3:
                connector.stop()
        if parcel.message.body == b"unwanted":
            raise Refused("bad-dest-queue")

    connector.run(hand_over)
    assert handed == {b"plain", b"in a transaction", b"unwanted"}
    assert [message.body for message in manager.queue(DEAD).browse()] == [b"unwanted"]
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0
    assert manager.queue(f"CONNECTOR={SITE};xactonly").count() == 0


def test_trouble_with_the_foreign_system_keeps_messages_and_order(
    manager: QueueManagerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.connector.bridge.PAUSE_FIRST_S", 0.0)
    manager.queue(ORDERS).send_many([b"1", b"2", b"3"])
    connector, handed, troubles = Connector(manager, "Streams"), list[bytes](), list[Exception]()

    def hand_over(parcel: Parcel) -> None:
        if parcel.message.body == b"2" and len(troubles) < 3:
            raise ConnectionError("away")
        handed.append(parcel.message.body)
        if len(handed) == 3:
            connector.stop()

    connector.run(hand_over, on_trouble=troubles.append)
    assert handed == [b"1", b"2", b"3"]
    assert [str(trouble) for trouble in troubles] == ["away"] * 3
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0


def test_one_queue_that_is_in_trouble_does_not_hold_up_the_others(
    manager: QueueManagerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.connector.bridge.PAUSE_FIRST_S", 0.0)
    other = f"PRIVATE={SYSTEM}\\00000007"
    bodies = [(ORDERS, b"1"), (other, b"2"), (ORDERS, b"3"), (other, b"4")]
    for name, body in bodies:
        manager.queue(name).send(body, recoverable=True)
    connector, asked, troubles = Connector(manager, "Streams"), list[bytes](), list[Exception]()

    def hand_over(parcel: Parcel) -> None:
        asked.append(parcel.message.body)
        if parcel.destination == ORDERS and len(troubles) < 2:
            raise OSError("away")
        if parcel.message.body == b"3":
            connector.stop()

    connector.run(hand_over, on_trouble=troubles.append)
    assert asked == [b"1", b"2", b"4", b"1", b"1", b"3"]
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0


def test_a_queue_in_trouble_holds_up_nobody_however_much_waits_for_it(
    manager: QueueManagerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.connector.bridge.PAUSE_FIRST_S", 0.0)
    other = f"PRIVATE={SYSTEM}\\00000007"
    waiting = [b"%d" % number for number in range(30)]
    manager.queue(ORDERS).send_many(waiting, recoverable=True)
    manager.queue(other).send_many([b"a", b"b"])
    connector, asked, troubles = Connector(manager, "Streams", batch=4), [], list[Exception]()

    def hand_over(parcel: Parcel) -> None:
        asked.append(parcel.message.body)
        if parcel.message.body == b"b":
            manager.queue(other).send(b"c")
        if parcel.destination == ORDERS and len(troubles) < 3:
            raise OSError("away")
        if parcel.message.body == waiting[-1]:
            connector.stop()

    connector.run(hand_over, on_trouble=troubles.append)
    assert asked == [b"0", b"a", b"b", b"c", b"0", b"0", *waiting]
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0


def test_a_run_ends_with_its_session(manager: QueueManagerClient) -> None:
    manager.queue(ORDERS).send(b"x")
    home = new_home()
    other = posthouse.open(home, name="BRAVO")
    connect_streams(other)
    other.queue(ORDERS).send(b"x")
    connector = Connector(other, "Streams")

    def hand_over(parcel: Parcel) -> None:
        other.close()

    with pytest.raises(posthouse.SessionEnded):
        connector.run(hand_over)
    shutil.rmtree(home)


def test_a_run_waits_for_whoever_has_the_queues(manager: QueueManagerClient) -> None:
    manager.queue(ORDERS).send_many([b"1", b"2"])
    first, second = Connector(manager, "Streams"), Connector(manager, "Streams")
    troubles, handed = list[Exception](), list[bytes]()
    with closing(first.parcels(timeout=0)) as parcels:
        next(parcels)

        def trouble(error: Exception) -> None:
            troubles.append(error)
            second.stop()

        second.run(lambda parcel: None, on_trouble=trouble)
    assert {type(one) for one in troubles} == {SharingViolation}
    first.close()
    third = Connector(manager, "Streams")

    def hand_over(parcel: Parcel) -> None:
        handed.append(parcel.message.body)
        third.stop()  # with another one in hand

    third.run(hand_over)
    assert handed == [b"1"]
    assert manager.queue(f"CONNECTOR={SITE}").count() == 1


def test_a_system_of_a_site_without_a_connector_is_waited_for(manager: QueueManagerClient) -> None:
    lost = "8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f40"
    machine = {"name": "LOST", "guid": lost, "foreign": True, "sites": ["Lost"]}
    document = {"sites": [{"name": "Lost", "foreign": True}], "machines": [machine]}
    manager.call("POST", "/directory", {"document": document})
    name = f"PRIVATE={lost}\\00000007"
    manager.queue(name).send(b"x")
    waiting = {queue.format_name: queue.messages for queue in manager.queues(outgoing=True)}
    assert waiting[name] == 1
    assert manager.queue(f"CONNECTOR={SITE}").count() == 0
