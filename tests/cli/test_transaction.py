"""`posthouse transaction`."""

from __future__ import annotations

import uuid

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.guids import format_guid
from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.security.access import Caller
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving

ORDERS = "./private$/booked"


@pytest.fixture(autouse=True)
def booked(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS, "--transactional")
    ph("queue", "purge", ORDERS)


def prepared(server: Serving) -> str:
    """A transaction that waits for a coordinator, with one message in it."""

    def prepare(manager: QueueManager) -> str:
        descriptor = manager.queues.open_queue(ORDERS, QueueAccessType.SEND, Caller.administrator())
        transaction = manager.transactions.create_transaction(uuid.uuid4().bytes)
        manager.messages.enqueue_message_to_an_open_queue(
            descriptor, Message(body=b"x"), transaction
        )
        manager.transactions.collection.prepare_for(b"coordinator", transaction.identifier)
        return format_guid(transaction.identifier)

    return server.ask(prepare)


def messages(ph: Posthouse) -> int:
    return int(ph("queue", "show", ORDERS, "--json").value["messages"])


def test_a_prepared_transaction_is_listed_and_committed(ph: Posthouse, server: Serving) -> None:
    identifier = prepared(server)
    (line,) = ph("transaction", "list", "--json").lines
    assert (line["id"], line["state"], line["operations"]) == (identifier, "prepared", 1)
    assert identifier in ph("transaction", "list").out
    looked = ph("transaction", "commit", identifier, "--dry-run")
    assert looked.out == f"{identifier} is prepared; commit ends 1 operation.\n"
    assert ph("transaction", "abort", identifier, "--dry-run", "--json").value["id"] == identifier
    assert ph("transaction", "commit", identifier).out == f"Committed {identifier}.\n"
    assert messages(ph) == 1
    assert ph("transaction", "list", "--json").lines == []


def test_a_prepared_transaction_is_aborted_after_a_question(ph: Posthouse, server: Serving) -> None:
    identifier = prepared(server)
    assert ph("transaction", "abort", identifier, terminal=True, stdin=b"n\n").code == 1
    assert ph("transaction", "abort", f"{{{identifier.upper()}}}", "--json").value == {"done": True}
    assert messages(ph) == 0


def test_what_is_unknown_is_refused(ph: Posthouse) -> None:
    refused = ph("transaction", "commit", str(uuid.uuid4()))
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_TRANSACTION_SEQUENCE (0xC00E0051): ")
    assert ph("transaction", "abort", str(uuid.uuid4()), "--dry-run").code == 1
    assert ph("transaction", "abort", "17").code == 2
