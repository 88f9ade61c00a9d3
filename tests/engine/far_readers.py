"""A rig for remote readers: a client's association, and transactions that a peer coordinates."""

from __future__ import annotations

from typing import Any

from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer import remote_reads
from posthouse.model.guids import NULL_GUID
from posthouse.runtime.driver import Delivery
from posthouse.security.enlistment import EnlistmentToken, pack_token
from posthouse.security.peer_calls import PeerCall, Reply, Verb, check_reply, sign_call
from tests.engine.readers import Readers
from tests.engine.rig import MOVE, RECEIVE, START_UTC

COORDINATOR, URL, KEY = b"C" * 16, "http://coordinator:8816", b"k" * 32
UOW = b"u" * 16


class Client:
    """Somebody's association."""


class FarReaders(Readers):
    """ALPHA is read from afar, and takes part in transactions of COORDINATOR."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.client = Client()
        self.run(lambda m: m.transactions.add_peer("COORDINATOR", COORDINATOR, URL, KEY))

    def reader(self, name: str = "q", **options: Any) -> OpenQueueDescriptor:
        options.setdefault("association", self.client)
        return self.open(name, RECEIVE, **options)

    def mover(self, name: str, **options: Any) -> OpenQueueDescriptor:
        options.setdefault("association", self.client)
        return self.open(name, MOVE, **options)

    # -- transactions

    def token(self, identifier: bytes = UOW, **changes: Any) -> bytes:
        token = EnlistmentToken(COORDINATOR, URL, identifier, START_UTC + 60)
        return pack_token(token._replace(**changes), KEY)

    def enlist(self, identifier: bytes = UOW, **options: Any) -> Transaction:
        token = options.get("token", self.token(identifier))
        client = options.get("association", self.client)
        self.run(lambda m: remote_reads.enlist(m, identifier, token, client))
        return self.manager.transactions.find(identifier)

    def call(self, verb: Verb, identifier: bytes = UOW) -> Reply:
        """The coordinator calls."""
        us, now = self.manager.machine.identifier, self.clock.utc_seconds
        text = sign_call(PeerCall(verb, COORDINATOR, us, identifier, now, bytes(8)), KEY)
        return check_reply(text, self.run(lambda m: m.transactions.called(text)), KEY)

    def commit_from_afar(self, identifier: bytes = UOW) -> None:
        assert self.call(Verb.PREPARE, identifier) is Reply.PREPARED
        assert self.call(Verb.COMMIT, identifier) is Reply.DONE

    # -- what a remote reader does

    def transaction(
        self, source: OpenQueueDescriptor, identifier: bytes = UOW, *, peek: bool = False
    ) -> Transaction | None:
        return self.run(lambda m: remote_reads.transaction_of(m, source, identifier, peek=peek))

    def start(self, source: OpenQueueDescriptor, identifier: bytes = NULL_GUID) -> Delivery:
        """R_StartTransactionalReceive of a message that is there."""
        return self.hold(source, transaction=self.transaction(source, identifier))

    def end_read(self, source: OpenQueueDescriptor, lookup_id: int, *, positive: bool) -> None:
        self.run(lambda m: remote_reads.end_read(m, source, lookup_id, positive=positive))

    def receive_in(self, source: OpenQueueDescriptor, identifier: bytes = UOW) -> Delivery:
        """Both steps."""
        delivery = self.start(source, identifier)
        self.end_read(source, delivery.read.lookup_id, positive=True)
        return delivery

    def give_back(self, source: OpenQueueDescriptor, lookup_id: int, *, in_doubt: bool) -> None:
        self.run(lambda m: remote_reads.return_message(m, source, lookup_id, in_doubt=in_doubt))

    def set_class(self, source: OpenQueueDescriptor, lookup_id: int, message_class: int) -> None:
        self.run(
            lambda m: remote_reads.set_acknowledgement_class(m, source, lookup_id, message_class)
        )

    def move_to(
        self,
        source: OpenQueueDescriptor,
        context: int,
        lookup_id: int,
        identifier: bytes = NULL_GUID,
    ) -> None:
        self.run(lambda m: remote_reads.move_message(m, source, context, lookup_id, identifier))

    def particulars(self, delivery: Delivery) -> remote_reads.Particulars:
        return remote_reads.particulars(self.manager, delivery.read, delivery.packet)


def far_readers(*bodies: bytes, transactional: bool = False, **properties: Any) -> FarReaders:
    """A queue q with these messages."""
    rig = FarReaders()
    rig.create("q", transactional=transactional, **properties)
    rig.fill(*bodies)
    return rig
