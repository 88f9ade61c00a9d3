"""What a trace shows: noted once for a batch, let out with the turn, bounded."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from posthouse.engine.ledger import spans
from posthouse.engine.ledger.spans import SpanNote, SpanNotes, own_context
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.formats.trace_headers import context_in
from posthouse.model.message import Message
from tests.engine.rig import RECEIVE, RECOVERABLE, SEND, Rig

SPAN = "00f067aa0ba902b7"


def extension(trace: int, flags: int = 1) -> bytes:
    return json.dumps({"traceparent": f"00-{trace:032x}-{SPAN}-{flags:02x}"}).encode()


def traced(rig: Rig, ratio: float = 0.0, *, labels: bool = False) -> list[SpanNote]:
    """Begins tracing; the list gets what is let out."""
    shown: list[SpanNote] = []
    notes: SpanNotes = rig.manager.machine.begin_tracing(context_in, ratio, labels=labels)
    rig.driver.spans, rig.driver.on_spans = notes, shown.extend
    return shown


def end(reader: OpenQueueDescriptor, lookup_id: int, manager: QueueManager) -> None:
    manager.messages.dequeue_message_end(reader, lookup_id, positive=True)


def operations(shown: list[SpanNote]) -> list[tuple[str, str]]:
    return [(note.operation, note.fault) for note in shown]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.create("q")
    return made


def test_nothing_is_noted_while_tracing_is_off(rig: Rig) -> None:
    """There is nothing to note it with."""
    rig.send("q", extension=extension(7))
    assert rig.manager.ledger.spans is None
    assert rig.driver.spans is None


def test_spans_wait_for_the_sync(rig: Rig) -> None:
    """What a trace shows is as durable as an answer."""
    shown, driver, opened = traced(rig), rig.driver, rig.open("q", SEND)
    message = Message(extension=extension(7), delivery_guarantee=RECOVERABLE)
    driver.begin_turn()
    driver.decide(
        lambda m: m.messages.enqueue_message_to_an_open_queue(opened, message), lambda answer: None
    )
    driver.end_turn()
    driver.release()
    assert shown == []
    driver.sync()
    driver.release()
    assert operations(shown) == [("send", ""), ("arrive", "")]


@pytest.mark.parametrize("journaling", [False, True])
def test_the_ways_of_a_receive(journaling: bool) -> None:
    """Taken at once, in two steps, given back, and in a transaction that aborts and commits."""
    rig = Rig()
    rig.create("q", transactional=True, journaling=journaling)
    tx = rig.begin("send")
    for _ in range(3):
        rig.send("q", tx=tx, extension=extension(7))
    shown = traced(rig)
    rig.commit(tx)
    assert [(note.operation, note.messages) for note in shown] == [("arrive", 3)]
    shown.clear()
    reader = rig.open("q", RECEIVE)
    rig.receive(reader)
    assert operations(shown) == [("receive", "")]
    shown.clear()
    held = rig.receive(reader, two_phase=True)
    assert shown == []
    rig.clock.advance(5000)
    rig.run(lambda m: m.messages.dequeue_message_end(reader, held.read.lookup_id, positive=False))
    assert operations(shown) == [("receive", "returned")]
    assert rig.clock.now_ms - shown[0].began_ms == 5000
    shown.clear()
    held = rig.receive(reader, two_phase=True)
    rig.run(lambda m: m.messages.dequeue_message_end(reader, held.read.lookup_id, positive=True))
    assert operations(shown) == [("receive", "")]
    shown.clear()
    tx = rig.begin("t2")
    rig.receive(reader, transaction=tx)
    rig.abort(tx)
    tx = rig.begin("t3")
    rig.receive(reader, transaction=tx)
    rig.commit(tx)
    assert operations(shown) == [("receive", "returned"), ("receive", "")]


def test_peeks_and_untraced_messages_show_nothing(rig: Rig) -> None:
    """Neither do contexts whose sender does not record, nor what is not a context."""
    shown = traced(rig)
    rig.send("q", extension=extension(7))
    shown.clear()
    rig.peek("q")
    for other in (extension(7, 0), b'{"traceparent":"00-XYZ"}', b"\x80traceparent", b""):
        rig.send("q", extension=other)
    assert shown == []


def test_labels_are_shown_on_request_only() -> None:
    """Everything else of a message never is."""
    for labels in (False, True):
        rig = Rig()
        rig.create("q")
        shown = traced(rig, labels=labels)
        rig.send("q", b"the body", label="the label", extension=extension(7))
        assert {note.label for note in shown} == {"the label" if labels else ""}
        assert "the body" not in repr(shown)


def test_many_traces_of_a_batch_share_a_span(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It links to some of them."""
    shown = traced(rig)
    notes = rig.driver.spans
    assert notes is not None
    packets = []
    for number in range(1, 6):
        rig.send("q", extension=extension(number))
        packets.append(rig.store.read(max(rig.store.disk.packets)))
    shown.clear()
    monkeypatch.setattr(spans, "LINKS_MAX", 3)
    notes.sent(rig.queue("q"), packets)
    assert [note.messages for note in notes.take()] == [1] * 5
    monkeypatch.setattr(spans, "SPANS_OF_BATCH", 4)
    notes.sent(rig.queue("q"), packets)
    (note,) = notes.take()
    assert (note.context, len(note.links), note.messages) == (None, 3, 5)
    notes.sent(rig.queue("q"), packets[:1] * 7)
    (note,) = notes.take()
    assert (note.messages, note.message_id) == (7, "")


def test_what_has_begun_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten, and counted."""
    monkeypatch.setattr(spans, "OPEN_MAX", 2)
    shown = traced(rig)
    for number in range(1, 4):
        rig.send("q", extension=extension(number))
    reader = rig.open("q", RECEIVE)
    held = [rig.receive(reader, two_phase=True) for _ in range(3)]
    shown.clear()
    for one in held:
        lookup_id = one.read.lookup_id
        rig.run(partial(end, reader, lookup_id))
    assert [note.context.trace_id for note in shown if note.context] == [2, 3]
    assert rig.driver.spans is not None
    assert rig.driver.spans.dropped == 1


def test_the_ratio_chooses_by_the_identifier(rig: Rig) -> None:
    """Some of those without a context, and the same ones everywhere."""
    shown = traced(rig, 0.5)
    sent: list[Any] = [rig.send("q") for _ in range(200)]
    chosen = {note.message_id for note in shown}
    assert 50 < len(chosen) < 150
    for identifier in sent:
        context = own_context(identifier.guid, identifier.ordinal)
        is_low = context.trace_id & (1 << 64) - 1 < 1 << 63
        assert (str(identifier) in chosen) is is_low
    assert {note.is_root for note in shown if note.operation == "send"} == {True}
    assert {note.is_root for note in shown if note.operation == "arrive"} == {False}


def test_packets_with_broken_headers_are_passed_over(rig: Rig) -> None:
    """A trace never costs a message."""
    traced(rig, 1.0)
    notes = rig.driver.spans
    assert notes is not None
    rig.send("q", extension=extension(7))
    good = rig.store.read(max(rig.store.disk.packets))
    notes.sent(rig.queue("q"), [b"broken", good, good[:40]])
    assert [note.messages for note in notes.take()] == [1]
