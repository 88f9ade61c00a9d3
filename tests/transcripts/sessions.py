"""Conversations of client sessions (wire/frames): a client and a queue manager in memory."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from posthouse.model.guids import format_guid
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import deserialize
from tests.protocols.admin.session_rig import RECEIVE, SEND, Client, SessionRig, packet
from tests.transcripts.recorder import Recorder

KINDS: Final = (
    *("HELLO", "WELCOME", "OPEN", "OPENED", "CLOSE", "DONE", "ERROR"),
    *("SEND", "SENT", "RECEIVE", "PEEK", "MESSAGES", "END", "ENDED"),
    *("BEGIN", "BEGUN", "COMMIT", "ABORT"),
)
NAMES: Final = {getattr(frames, name): name for name in KINDS}
LIMITS: Final = ("frame_size_max", "requests_max", "waits_max", "batch_max", "unanswered_max")


class Talk:
    """One session, and every frame of it."""

    def __init__(self, title: str) -> None:
        self.rig = SessionRig()
        self.script = Recorder(lambda: self.rig.clock.now_ms, title)
        self.script.name("ALPHA", format_guid(self.rig.manager.machine.identifier))
        self.client = client = Client(self.rig.desk, greet=False)
        self._requests, self._answers = frames.Splitter(), frames.Splitter()
        receive = client.session.receive

        def heard(data: bytes) -> None:
            for frame in self._requests.feed(data):
                self._show("CLIENT -> ALPHA", frame)
            receive(data)

        client.session.receive = heard  # type: ignore[method-assign]
        client.heard = lambda frame: self._show("ALPHA -> CLIENT", frame)
        client.ask(payloads.Hello(client="transcript"), payloads.Welcome)

    def _show(self, way: str, frame: frames.Frame) -> None:
        value = frames.decode(frame.kind, frame.payload)
        kind = f"{NAMES[frame.kind]} {frame.request}"
        for fields in _fields(value):
            self.script.line(way, kind, **fields)


def _fields(value: Any) -> list[dict[str, Any]]:
    """The fields of a payload; of a list one line for each message."""
    if isinstance(value, list):
        return [_delivered(one) for one in value] or [{"messages": "none"}]
    if isinstance(value, payloads.Refusal):
        return [{"code": f"0x{value.code:08X}", "cause": value.cause, "remedy": value.remedy}]
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        return [{k: _plain(v) for k, v in fields.items() if k not in LIMITS and _is_told(v)}]
    if isinstance(value, frames.Send):
        bodies = b" | ".join(deserialize(one).body for one in value.packets)
        return [{"queue": value.queue, "transaction": value.transaction, "bodies": bodies}]
    if hasattr(value, "_asdict"):
        return [{k: _plain(v) for k, v in value._asdict().items() if _is_told(v)}]
    if isinstance(value, tuple):
        return [{"ordinals": list(value)}]
    return [{"count": value}]


def _delivered(one: frames.Delivered) -> dict[str, Any]:
    body = deserialize(one.packet).body
    return {"lookup_id": one.lookup_id, "priority": one.priority, "body": body}


def _is_told(value: Any) -> bool:
    return value not in (b"", "", 0, False, None, [])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes) and len(value) == 16:
        return format_guid(value)
    return list(value) if isinstance(value, tuple) else getattr(value, "name", value)


def send() -> str:
    """Open, send, refusal, close."""
    talk = Talk("Client session: open a queue and send")
    script, client = talk.script, talk.client
    script.note("Requests have numbers, and answers have the number of their request.")
    queue = client.open(access=SEND)
    script.note("All packets of a frame are taken or none. SENT comes when they are on disk.")
    client.send(queue, [packet(b"two hundred cups"), packet(b"one spoon")])
    script.note("A refusal has a code, a cause and a remedy. The session goes on.")
    client.refused(payloads.Open(r".\private$\nowhere", SEND))
    client.done(payloads.Close(queue))
    return script.text()


def receive() -> str:
    """A receive that waits, and the end of a message."""
    talk = Talk("Client session: receive, wait for a message, give one back")
    script, client, rig = talk.script, talk.client, talk.rig
    rig.send("orders", b"two hundred cups")
    queue = client.open(access=RECEIVE)
    script.note("A received message is locked. END ends it.")
    (first,) = client.read(queue)
    client.end(queue, [first.lookup_id])
    script.note("The queue is empty: this request waits for 30 s at most.")
    waiting = client.put_read(queue, timeout_ms=30_000)
    assert client.waits(waiting)
    rig.clock.advance(1_500)
    script.note("A message arrives, and the request that waits is answered with it.")
    rig.send("orders", b"one spoon")
    (second,) = client.answer(waiting)
    script.note("END that is not positive gives it back: it is there again.")
    client.end(queue, [second.lookup_id], positive=False)
    assert client.bodies(queue, kind=frames.PEEK) == [b"one spoon"]
    return script.text()


def transaction() -> str:
    """Two queues in one transaction, and an abort."""
    talk = Talk("Client session: a transaction that commits, and one that aborts")
    script, client = talk.script, talk.client
    ledger = client.open(r".\private$\ledger", SEND)
    script.note("Nothing of a transaction is seen before COMMIT is answered.")
    tx = client.begin()
    rows = [packet(body, to="ledger", transactional=True) for body in (b"debit", b"credit")]
    client.send(ledger, rows, tx=tx)
    reading = client.open(r".\private$\ledger", RECEIVE)
    assert client.read(reading, kind=frames.PEEK).code
    client.done(payloads.Commit(tx))
    script.note("A receive in a transaction is undone by ABORT: the message is there again.")
    tx = client.begin()
    assert client.bodies(reading, tx=tx) == [b"debit"]
    client.done(payloads.Abort(tx))
    assert client.bodies(reading, kind=frames.PEEK) == [b"debit"]
    return script.text()


CONVERSATIONS = {"send": send, "receive": receive, "transaction": transaction}
