"""A home on a real disk, opened in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import IoTimeout, ServiceNotAvailable
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.wire.packet.message import deserialize

ORDERS = r".\private$\orders"


def opened(home: Path) -> EmbeddedQueueManager:
    return EmbeddedQueueManager(home, settings=EngineSettings("ALPHA"))


def receive(manager: EmbeddedQueueManager) -> Message:
    descriptor = manager.run(
        lambda m: m.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, manager.administrator)
    )
    delivery = manager.read(lambda m: m.messages.dequeue_message(descriptor, timeout_ms=0))
    assert delivery is not None
    return deserialize(delivery.packet)


def test_messages_of_both_deliveries_outlive_a_clean_stop(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        guid = manager.manager.machine.identifier
        manager.create_queue(ORDERS, QueueProperties())
        sender = manager.run(
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.SEND, manager.administrator)
        )
        manager.send(sender, Message(body=b"express", priority=4))
        manager.send(
            sender, Message(body=b"kept", delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        )
    with opened(tmp_path) as manager:
        assert manager.manager.machine.identifier == guid
        assert manager.recovered.clean
        assert receive(manager).body == b"express"
        assert receive(manager).body == b"kept"
        with pytest.raises(IoTimeout):
            receive(manager)


def test_a_home_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(ServiceNotAvailable, match="in use"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_several_messages_are_read_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        manager.create_queue(ORDERS, QueueProperties())
        admin = manager.administrator
        sender = manager.run(lambda m: m.queues.open_queue(ORDERS, QueueAccessType.SEND, admin))
        for number in range(5):
            manager.send(sender, Message(body=b"%d" % number))
        reader = manager.run(lambda m: m.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, admin))
        deliveries = manager.read_many(lambda m: m.messages.dequeue_messages(reader, 3))
        assert [deserialize(d.packet).body for d in deliveries] == [b"0", b"1", b"2"]


def test_a_queue_manager_that_failed_gives_its_home_back(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    with pytest.raises(ZeroDivisionError):
        manager.run(lambda m: 1 // 0)
    with pytest.raises(ServiceNotAvailable):
        manager.close()
    opened(tmp_path).close()
