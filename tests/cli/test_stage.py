"""`posthouse stage`: what waits to be published is listed, shown and dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.security.access import Caller
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving
from tests.engine.staging import key_of, run_of

QUEUE = "./private$/staged"
QUERY = "7d0c4f5e"


@pytest.fixture(autouse=True)
def staged(ph: Posthouse, server: Serving) -> Iterator[None]:
    """A batch of three messages."""
    ph("queue", "create", QUEUE)
    server.ask(_stage)
    yield
    server.ask(lambda manager: manager.stages.forget_query(QUERY, Caller.administrator()))
    assert ph("queue", "delete", QUEUE).code == 0


def _stage(manager: QueueManager) -> None:
    upload = manager.stages.begin(key_of(4, 1, 2, QUERY), Caller.administrator())
    assert upload is not None
    target = manager.stages.target(upload, QUEUE.replace("/", "\\"))
    manager.stages.append(upload, [run_of(manager, upload, target, [b"a", b"b", b"c"])])
    manager.stages.finish(upload)


def test_stages_are_listed(ph: Posthouse) -> None:
    shown = ph("stage", "list").out
    assert QUERY in shown
    (line,) = ph("stage", "list", "--json").lines
    assert (line["batch"], line["partition"], line["attempt"], line["messages"]) == (4, 1, 2, 3)


def test_a_query_is_shown(ph: Posthouse, server: Serving) -> None:
    assert "has published nothing; 1 stages wait" in ph("stage", "show", QUERY).out
    admin = Caller.administrator()
    server.ask(lambda manager: manager.stages.publish(QUERY, 4, [(1, 2)], admin))
    assert "has published batch 4 (3 messages" in ph("stage", "show", QUERY).out
    assert ph("stage", "show", QUERY, "--json").value["batch"] == 4
    assert ph("queue", "show", QUEUE, "--json").value["messages"] == 3


def test_a_batch_is_discarded_when_it_is_confirmed(ph: Posthouse) -> None:
    told = ph("stage", "discard", QUERY, "4", "--dry-run").out
    assert told == "Would discard 1 stage with 3 messages.\n"
    assert ph("stage", "discard", QUERY, "4", stdin=b"n\n", terminal=True).code == 1
    assert len(ph("stage", "list", "--json").lines) == 1
    assert ph("stage", "discard", QUERY, "4", "--yes").out == "Discarded 1 stage.\n"
    assert ph("stage", "list", "--json").lines == []
    assert ph("stage", "discard", QUERY, "4", "--yes", "--json").value == {"stages": 0}


def test_a_query_is_forgotten_when_it_is_confirmed(ph: Posthouse, server: Serving) -> None:
    """Its batches may begin again then; what it has published stays."""
    admin = Caller.administrator()
    server.ask(lambda manager: manager.stages.publish(QUERY, 4, [(1, 2)], admin))
    told = ph("stage", "forget", QUERY, "--dry-run").out
    assert told.startswith(f"Would forget that {QUERY} has published batch 4")
    assert ph("stage", "forget", QUERY, stdin=b"n\n", terminal=True).code == 1
    assert ph("stage", "show", QUERY, "--json").value["batch"] == 4
    assert ph("stage", "forget", QUERY, "--yes").out == f"{QUERY} is forgotten.\n"
    assert ph("stage", "show", QUERY, "--json").value["batch"] is None
    assert ph("queue", "show", QUEUE, "--json").value["messages"] == 3
    assert ph("stage", "forget", QUERY, "--yes", "--json").code == 0
