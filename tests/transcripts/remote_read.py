"""Conversations of remote read ([MS-MQRR]): both ends of DCE/RPC in memory, PDU by PDU."""

from __future__ import annotations

from typing import Any, Final

from posthouse.model.error_table import explain
from posthouse.protocols.remote_read import actions, stubs
from posthouse.protocols.remote_read.settings import MinimumAuthentication, RemoteReadSettings
from posthouse.protocols.remote_read.stubs import REMOTE_READ, Ack, Opnum
from posthouse.rpc import pdu, statuses
from posthouse.rpc.client import ClientConnection
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.settings import RpcSettings
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import ANONYMOUS
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.remote_read import read_packet
from tests.protocols.remote_read.rig import ALL, CLIENT_ID, RECEIVE_ACCESS, ServerRig
from tests.protocols.remote_read.rights import grant
from tests.transcripts.recorder import Recorder

ADDRESS: Final = "192.0.2.7"
KINDS: Final = {
    pdu.BIND: "bind",
    pdu.BIND_ACK: "bind_ack",
    pdu.BIND_NAK: "bind_nak",
    pdu.FAULT: "fault",
}
REQUEST_FIELDS: Final = ("queue_format", "access", "timeout", "request_id", "ack")


class Talk:
    """A client and a server, and every PDU between them."""

    def __init__(
        self,
        title: str,
        *,
        minimum: MinimumAuthentication = "none",
        script: Recorder | None = None,
    ) -> None:
        self.rig = rig = ServerRig(RemoteReadSettings(minimum_authentication=minimum))
        self.script = script or Recorder(lambda: rig.clock.now_ms, title)
        self.back = b""
        self._opnums: dict[int, int] = {}
        self.server = ServerConnection(
            [rig.interface],
            rig.groups,
            None,
            RpcSettings(),
            ADDRESS,
            self._answered,
            lambda: self.script.line("ALPHA -> CLIENT", "(closes the connection)"),
        )
        self.client = ClientConnection(REMOTE_READ)
        self.client.begin()
        self.carry()

    def _answered(self, parts: list[bytes]) -> None:
        self.back += b"".join(parts)

    def carry(self) -> list[Any]:
        """Both ways, until nothing is left: the answers that came."""
        answers: list[Any] = []
        while True:
            if data := self.client.take_outgoing():
                self._show("CLIENT -> ALPHA", data)
                self.server.receive(data)
            self.rig.desk.settle()
            if not self.back and not data:
                return answers
            came, self.back = self.back, b""
            self._show("ALPHA -> CLIENT", came)
            answers += self.client.receive(came)

    def call(self, opnum: Opnum, *parameters: Any) -> Any:
        """One call; None where its answer has not come yet."""
        request = stubs.METHODS[opnum].request.parameters(*parameters)
        number = self.client.request(opnum, stubs.encode_request(opnum, request))
        stub = {call: answer for call, _, answer in self.carry()}.get(number)
        return None if stub is None else stubs.decode_response(opnum, stub)

    # -- what is shown

    def _show(self, way: str, data: bytes) -> None:
        at = 0
        while at < len(data):
            header = pdu.read_header(data, at)
            whole, at = data[at : at + header.frag_length], at + header.frag_length
            self._show_pdu(way, header, pdu.body_of(whole, header)[0])

    def _show_pdu(self, way: str, header: pdu.Header, body: bytes) -> None:
        fields: dict[str, Any] = {"call": header.call_id}
        if header.kind == pdu.REQUEST:
            request = pdu.read_request(body, header.flags)
            opnum = self._opnums[header.call_id] = Opnum(request.opnum)
            asked = stubs.decode_request(opnum, bytes(request.stub))._asdict()
            fields |= {name: asked[name] for name in REQUEST_FIELDS if name in asked}
            if "queue_format" in fields:
                fields["queue_format"] = fields["queue_format"].arm
            if "ack" in fields:
                fields["ack"] = Ack(fields["ack"]).name
            self.script.line(way, f"request {stubs.METHODS[opnum].name}", **fields)
        elif header.kind == pdu.RESPONSE:
            opnum = Opnum(self._opnums[header.call_id])
            answer = stubs.decode_response(opnum, bytes(pdu.read_response(body).stub))
            self.script.line(way, "response", **fields | _answer(answer))
        elif header.kind == pdu.FAULT:
            status = pdu.read_fault(body).status
            name = "access denied" if status == statuses.ACCESS_DENIED else explain(status).name
            self.script.line(way, "fault", **fields, status=f"0x{status:08X} {name}")
        else:
            self.script.line(way, KINDS[header.kind], **fields)


def _answer(answer: Any) -> dict[str, Any]:
    values, fields = answer._asdict(), dict[str, Any]()
    if "result" in values:
        code = values["result"]
        fields["result"] = explain(code).name if code else "OK"
    if values.get("sections"):
        joined = b"".join(one.buffer.ljust(one.size_alloc, b"\0") for one in values["sections"])
        message = deserialize(read_packet(joined).message)
        fields |= {"lookup_id": values["sequence_id"], "body": message.body}
    return fields


def _open(talk: Talk, name: str = "orders") -> bytes | None:
    queue = talk.rig.format_of(name)
    opened = talk.call(Opnum.OPEN_QUEUE, queue, RECEIVE_ACCESS, 0, CLIENT_ID, 1, 6, 1, 7601, 1)
    return None if opened is None else opened.handle


def receive() -> str:
    """Open, start, end: a message is locked until its reader says what becomes of it."""
    talk = Talk("Remote read: a message is received in two steps, or given back")
    script = talk.script
    talk.rig.create("plain")
    grant(talk.rig, "plain", ANONYMOUS, QUEUE_GENERIC_ALL)
    talk.rig.send("plain", b"two hundred cups")
    handle = _open(talk, "plain")
    script.note("R_StartReceive locks the message and answers with its packet.")
    start = (handle, 0, 0, actions.RECEIVE, 0)
    talk.call(Opnum.START_RECEIVE, *start, 1, ALL, ALL)
    script.note("ack=NACK gives it back. It can be received again.")
    talk.call(Opnum.END_RECEIVE, handle, Ack.NACK, 1)
    talk.call(Opnum.START_RECEIVE, *start, 2, ALL, ALL)
    script.note("ack=ACK ends it.")
    talk.call(Opnum.END_RECEIVE, handle, Ack.ACK, 2)
    talk.call(Opnum.START_RECEIVE, *start, 3, ALL, ALL)
    talk.call(Opnum.CLOSE_QUEUE, handle)
    return script.text()


def cancel() -> str:
    """A receive that waits: a message ends it, or a cancel."""
    talk = Talk("Remote read: a receive that waits, and its cancellation")
    script, rig = talk.script, talk.rig
    rig.create("plain")
    grant(rig, "plain", ANONYMOUS, QUEUE_GENERIC_ALL)
    handle = _open(talk, "plain")
    script.note("Nothing is there: the call waits for 30 s at most.")
    wait = (handle, 0, 0, actions.RECEIVE, 30_000)
    assert talk.call(Opnum.START_RECEIVE, *wait, 1, ALL, ALL) is None
    rig.clock.advance(1_500)
    script.note("A message arrives.")
    rig.send("plain", b"one spoon")
    talk.carry()
    talk.call(Opnum.END_RECEIVE, handle, Ack.ACK, 1)
    script.note("The next call waits as well, and is cancelled by another call.")
    assert talk.call(Opnum.START_RECEIVE, *wait, 2, ALL, ALL) is None
    talk.call(Opnum.CANCEL_RECEIVE, handle, 2)
    return script.text()


def denied() -> str:
    """What a caller who is not known may not do, and a server that wants to know."""
    talk = Talk("Remote read: a caller without rights, and a call without a login")
    script, rig = talk.script, talk.rig
    rig.create("secrets")
    script.note("The queue grants nothing to anonymous.")
    _fault(talk, "secrets")
    script.note("There is no such queue.")
    _fault(talk, "nowhere")
    script.note("[remote_read] minimum_authentication = privacy: log in, or be refused.")
    strict = Talk("", minimum="privacy", script=script)
    strict.rig.create("plain")
    _fault(strict, "plain")
    return script.text()


def _fault(talk: Talk, name: str) -> None:
    queue = talk.rig.format_of(name)
    request = stubs.METHODS[Opnum.OPEN_QUEUE].request.parameters(
        queue, RECEIVE_ACCESS, 0, CLIENT_ID, 1, 6, 1, 7601, 1
    )
    talk.client.request(Opnum.OPEN_QUEUE, stubs.encode_request(Opnum.OPEN_QUEUE, request))
    ((_, status, _),) = talk.carry()
    assert status


CONVERSATIONS = {"receive": receive, "cancel": cancel, "denied": denied}
