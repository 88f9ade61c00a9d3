"""A queue manager that takes part in transactions of a peer, read from afar."""

from __future__ import annotations

from typing import Any

from posthouse.protocols.queue_format import QueueFormat
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.security.enlistment import EnlistmentToken, pack_token
from posthouse.security.peer_calls import PeerCall, Reply, Verb, check_reply, sign_call
from tests.engine.rig import START_UTC
from tests.protocols.remote_read.rig import Reader, RigCall, ServerRig

COORDINATOR, URL, KEY = b"C" * 16, "http://coordinator:8816", b"k" * 32
UOW = b"u" * 16


class TransactionRig(ServerRig):
    """`orders` is transactional and has these messages."""

    def __init__(self, *bodies: bytes, **options: Any) -> None:
        super().__init__(**options)
        self.run(lambda m: m.transactions.add_peer("COORDINATOR", COORDINATOR, URL, KEY))
        self.create("orders", transactional=True)
        for number, body in enumerate(bodies):
            tx = self.begin(f"send{number}")
            self.send("orders", body, tx=tx)
            self.commit(tx)

    def token(self, identifier: bytes = UOW, **changes: Any) -> bytes:
        token = EnlistmentToken(COORDINATOR, URL, identifier, START_UTC + 60)
        return pack_token(token._replace(**changes), KEY)

    def enlist(
        self, reader: Reader, identifier: bytes = UOW, token: bytes | None = None
    ) -> RigCall:
        """R_QMEnlistRemoteTransaction."""
        queue = self.format_of("orders")
        token = self.token(identifier) if token is None else token
        return self.enlist_for(reader, identifier, token, queue)

    def enlist_for(
        self, reader: Reader, identifier: bytes, token: bytes, queue: QueueFormat
    ) -> RigCall:
        return reader.call(Opnum.ENLIST_REMOTE_TRANSACTION, identifier, token, queue)

    def coordinator(self, verb: Verb, identifier: bytes = UOW) -> Reply:
        """The coordinator calls."""
        us, now = self.manager.machine.identifier, self.clock.utc_seconds
        text = sign_call(PeerCall(verb, COORDINATOR, us, identifier, now, bytes(8)), KEY)
        reply = check_reply(text, self.run(lambda m: m.transactions.called(text)), KEY)
        self.desk.settle()
        return reply

    def finish(self, *, commit: bool, identifier: bytes = UOW) -> None:
        """Both phases, or the end."""
        if commit:
            assert self.coordinator(Verb.PREPARE, identifier) is Reply.PREPARED
        verb = Verb.COMMIT if commit else Verb.ABORT
        assert self.coordinator(verb, identifier) is Reply.DONE
