"""Messages that connectors bring in, each once."""

from __future__ import annotations

import pytest

from posthouse.client.manager import QueueManagerClient
from posthouse.connector import Incoming, Inlet
from posthouse.model.errors import (
    IllegalFormatName,
    IoTimeout,
    MissingConnectorType,
    QueueError,
    SharingViolation,
)
from tests.connector.foreign_site import CONNECTOR_TYPE

ORDERS = r".\private$\orders"
POSITION = r".\private$\streams-inlet"


def inlet_of(manager: QueueManagerClient) -> Inlet:
    manager.create_queue(ORDERS, transactional=True, exist_ok=True)
    return Inlet(manager, POSITION, connector_type=CONNECTOR_TYPE)


def bodies(manager: QueueManagerClient) -> list[bytes]:
    return [message.body for message in manager.queue(ORDERS).browse()]


def test_messages_and_position_go_together(manager: QueueManagerClient) -> None:
    inlet = inlet_of(manager)
    assert inlet.position == ""
    inlet.bring([Incoming(ORDERS, b"1", label="first"), Incoming(ORDERS, b"2")], "17-0")
    inlet.bring([Incoming(ORDERS, b"3")], "18-0")
    assert inlet.position == "18-0"
    first, *_ = manager.queue(ORDERS).browse()
    assert first.label == "first"
    assert first.to_json().connector_type == CONNECTOR_TYPE
    assert bodies(manager) == [b"1", b"2", b"3"]
    assert manager.queue(POSITION).count() == 1


def test_a_batch_that_fails_leaves_nothing(manager: QueueManagerClient) -> None:
    inlet = inlet_of(manager)
    inlet.bring([Incoming(ORDERS, b"1")], "1")
    with pytest.raises(QueueError):
        inlet.bring([Incoming(ORDERS, b"2"), Incoming(r".\private$\none", b"3")], "3")
    assert inlet.position == "1"
    assert bodies(manager) == [b"1"]


def test_the_next_inlet_goes_on_where_the_last_one_was(manager: QueueManagerClient) -> None:
    first = inlet_of(manager)
    first.bring([Incoming(ORDERS, b"1")], "1")
    first.close()
    assert inlet_of(manager).position == "1"


def test_two_exclude_each_other(manager: QueueManagerClient) -> None:
    first = inlet_of(manager)
    assert first.position == ""
    with pytest.raises(SharingViolation):
        manager.queue(POSITION).receive(0)
    first.close()
    with pytest.raises(IoTimeout):
        manager.queue(POSITION).receive(0)


def test_what_another_inlet_has_sent_meanwhile_is_not_sent_again(
    manager: QueueManagerClient,
) -> None:
    first = inlet_of(manager)
    assert first.position == ""
    first.close()  # as if its connection had broken
    second = inlet_of(manager)
    assert second.position == ""
    second.bring([Incoming(ORDERS, b"1")], "1")
    second.close()
    with pytest.raises(SharingViolation, match="from the beginning to 1"):
        first.bring([Incoming(ORDERS, b"1")], "1")
    assert first.position == "1"
    first.bring([Incoming(ORDERS, b"2")], "2")
    assert bodies(manager) == [b"1", b"2"]


@pytest.mark.parametrize("kind", ["", "00000000-0000-0000-0000-000000000000"])
def test_a_connector_says_what_it_is(manager: QueueManagerClient, kind: str) -> None:
    with pytest.raises(MissingConnectorType):
        Inlet(manager, POSITION, connector_type=kind)


def test_a_type_that_is_no_guid_is_refused(manager: QueueManagerClient) -> None:
    with pytest.raises((QueueError, IllegalFormatName, ValueError)):
        Inlet(manager, POSITION, connector_type="redis")


def test_an_option_that_there_is_not_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(TypeError):
        Incoming(ORDERS, b"x", colour="red")  # type: ignore[call-arg]
