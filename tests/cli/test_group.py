"""`posthouse group`, and groups in `posthouse queue show`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import posthouse
from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.model.group_names import GroupMode
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving

ORDERS = "./private$/grouped"
NAME = r"ALPHA\private$\grouped"


@pytest.fixture(autouse=True)
def orders(ph: Posthouse, server: Serving) -> Iterator[list[int]]:
    """Three messages of which a group called `archive` has claimed two."""
    ph("queue", "create", ORDERS)
    for number in range(3):
        ph("send", ORDERS, "--body", str(number), "--recoverable")
    yield server.ask(_claim)
    ph("group", "release", ORDERS, "archive")
    assert ph("queue", "delete", ORDERS).code == 0


def _claim(manager: QueueManager) -> list[int]:
    queue = manager.queues._local(ORDERS.replace("/", "\\"))
    ids = [place.lookup_id for place, _ in queue.state.order.forward()]
    group = manager.groups.lease(queue, "archive", GroupMode.CONSUME, "night run")
    manager.groups.claim(group, 1, ClaimRange(ids[1], 0, "0123abcd"))
    return ids


def _end_lease(manager: QueueManager) -> None:
    group = manager.queues._local(ORDERS.replace("/", "\\")).groups["archive"]
    manager.groups.end_lease(group, group.definition.epoch)


def test_groups_are_listed(ph: Posthouse, orders: list[int]) -> None:
    (line,) = ph("group", "list", ORDERS, "--json").lines
    assert (line["name"], line["queue"], line["claimed"]) == ("archive", NAME, orders[1])
    assert ph("group", "list", "--json").lines[0]["name"] == "archive"
    listed = ph("group", "list").out
    assert "archive" in listed
    assert "night run, 1" in listed


def test_a_queue_shows_its_groups(ph: Posthouse) -> None:
    shown = ph("queue", "show", ORDERS).out
    assert "Groups" in shown
    assert "archive" in shown
    assert ph("queue", "show", ORDERS, "--json").value["groups"][0]["mode"] == "consume"


def test_a_group_is_shown(ph: Posthouse, orders: list[int]) -> None:
    shown = ph("group", "show", ORDERS, "archive").out
    assert f"2 messages in ({orders[0] - 1}, {orders[1]}], by stream 0123abcd" in shown
    assert ph("group", "show", ORDERS, "archive", "--json").value["lag_messages"] == 3
    assert ph("group", "show", ORDERS, "none").err.startswith("MQ_ERROR (0xC00E0001): ")


def test_who_receives_is_told_what_to_do(ph: Posthouse) -> None:
    refused = ph("receive", ORDERS)
    assert refused.code == 1
    assert "MQ_ERROR_SHARING_VIOLATION" in refused.err
    assert rf"posthouse group release '{NAME}' archive" in refused.err
    assert ph("peek", ORDERS).code == 0


def test_who_receives_after_the_reader_has_ended_is_told_who_has_the_messages(
    ph: Posthouse, server: Serving
) -> None:
    """A stream that ended without settling leaves its claims."""
    server.ask(_end_lease)
    assert ph("receive", ORDERS).code == 0  # the one that is not claimed
    empty = ph("receive", ORDERS)
    assert empty.code == 4
    assert "of 2 messages 2 are claimed by the group archive" in empty.err
    assert rf"posthouse group release '{NAME}' archive" in empty.err
    assert ph("receive", ORDERS, "--count", "2", "--timeout", "0.01").err.count("archive") == 2
    with posthouse.connect(home=server.home) as qm, pytest.raises(posthouse.IoTimeout) as error:
        qm.queue(ORDERS).receive(timeout=0)
    assert "2 are claimed by the group archive" in error.value.cause
    assert "posthouse group release" in error.value.remedy
    assert "2, 0 of them locked, 2 claimed by a group" in ph("queue", "show", ORDERS).out
    (line,) = [q for q in ph("queue", "list", "--json").lines if q["path"] == NAME]
    assert (line["messages"], line["claimed"]) == (2, 2)


def test_a_group_is_released_after_a_question(ph: Posthouse) -> None:
    looked = ph("group", "release", ORDERS, "archive", "--dry-run")
    assert looked.out == f"Would release 2 messages of the group archive in {NAME}.\n"
    asked = ph("group", "release", ORDERS, "archive", terminal=True, stdin=b"n\n")
    assert asked.code == 1
    assert ph("receive", ORDERS).code == 1
    done = ph("group", "release", ORDERS, "archive")
    assert done.out == f"Released 2 messages of the group archive in {NAME}.\n"
    assert ph("group", "release", ORDERS, "archive", "--json").value["released"] == 0
    assert ph("receive", ORDERS).code == 0


def test_a_group_is_set(ph: Posthouse, orders: list[int]) -> None:
    refused = ph("group", "set", ORDERS, "archive", "--position", "earliest")
    assert "MQ_ERROR_SHARING_VIOLATION" in refused.err
    ph("group", "release", ORDERS, "archive")
    moved = ph("group", "set", ORDERS, "archive", "--position", str(orders[0]))
    assert moved.out == f"archive of {NAME} continues after {orders[0]}.\n"
    value = ph("group", "set", ORDERS, "archive", "--position", "latest", "--json").value
    assert value["lag_messages"] == 0
    value = ph("group", "set", ORDERS, "archive", "--position", "earliest", "--json").value
    assert value["position"] == orders[0] - 1


@pytest.mark.parametrize("position", ["", "x", "-1", "9" * 30, "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_position_that_is_none_is_wrong_usage(ph: Posthouse, position: str) -> None:
    wrong = ph("group", "set", ORDERS, "archive", "--position", position)
    assert wrong.code == 2
    assert "earliest, latest or a lookup id" in wrong.err


def test_a_group_is_deleted_after_a_question(ph: Posthouse) -> None:
    assert ph("group", "delete", ORDERS, "archive").code == 1
    ph("group", "release", ORDERS, "archive")
    looked = ph("group", "delete", ORDERS, "archive", "--dry-run")
    assert looked.out == f"archive of {NAME} would be deleted.\n"
    assert ph("group", "delete", ORDERS, "archive", terminal=True, stdin=b"n\n").code == 1
    assert ph("group", "delete", ORDERS, "archive").out == f"archive of {ORDERS} is deleted.\n"
    assert ph("group", "list", ORDERS, "--json").lines == []
