"""A queue manager that receives signed packets of a user it knows."""

from __future__ import annotations

import random
from typing import Any

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.model.message_classes import (
    class_name,
)
from posthouse.model.message_values import AES_PROVIDER, PrivacyLevel
from posthouse.model.names import PrivateName
from posthouse.security.message_security import MessageSecurity
from posthouse.security.sids import make_sid
from posthouse.wire.packet.packet_fields import summarize
from tests.security.key_ring import MemoryRing, certificate, private_key, provider_key
from tests.support.answer_rig import AnswerRig

MARIA = "maria"


STRANGER = make_sid(5, 21, 7, 7, 7, 1000)


class SigningRig(AnswerRig):
    """A rig with an account whose certificate the sender signs with."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.maria = self.run(lambda m: m.accounts.add(MARIA)).sid
        certificates = self.manager.certificates
        certificates.key_file = lambda: b"s" * 32
        self.run(lambda m: certificates.register(self.maria, certificate(MARIA)))
        self.run(
            lambda m: certificates.publish(
                {AES_PROVIDER: private_key("own")}, certificate("own"), {}
            )
        )
        ring = self._ring = MemoryRing()
        ring.users = {self.maria: [MARIA], STRANGER: ["stranger"]}
        ring.published[self.guid] = [provider_key(AES_PROVIDER, "own")]
        self.far = MessageSecurity(ring, random.Random(2).randbytes)

    def signed(self, sid: bytes = b"", **attributes: Any) -> bytes:
        return self.far.sign(self.asking(**attributes), sid or self.maria)

    def sign_as(self, sid: bytes, name: str) -> None:
        """From now on messages under this SID are signed with the key and certificate of `name`."""
        self._ring.users[sid] = [name]

    def sealed(self, **attributes: Any) -> bytes:
        name = str(PrivateName(self.guid, self.queue("orders").number))
        packet = self.asking(
            destination_queue_format_name=name, privacy_level=PrivacyLevel.ADVANCED, **attributes
        )
        return self.far.seal(packet, summarize(packet), 0)

    def flags(self) -> list[int]:
        rows = [self.manager.messages.row(n) for _, n in self.queue("orders").state.order.forward()]
        return [row.flags & FLAG_AUTHENTICATED for row in rows]

    def refusals(self, code: int) -> int:
        return self.manager.machine.refusals[class_name(code)]
