"""A queue manager that receives signed SRMP messages."""

from __future__ import annotations

from typing import Any

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.message_values import HashAlgorithm
from posthouse.security.message_security import Signer
from posthouse.security.xml_signatures import sign
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import FAR_GUID
from tests.engine.web import PEER, WebRig, head_of
from tests.security.key_ring import certificate, private_key

MARIA = "maria"


SIGNED = "http://alpha/msmq/private$/signed"


class SigningRig(WebRig):
    """A rig with an account whose certificate the sender signs with, and a queue that wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.maria = self.run(lambda m: m.accounts.add(MARIA)).sid
        certificates = self.manager.certificates
        self.run(lambda m: certificates.register(self.maria, certificate(MARIA)))
        self.create("signed", authentication=True)

    def post_signed(
        self,
        message: SrmpMessage,
        body: bytes = b"body",
        extension: bytes = b"",
        *,
        by: str = MARIA,
        over: tuple[bytes, bytes] | None = None,
    ) -> int:
        """Posts a message with the signature of somebody over its parts, or over others."""
        signer = Signer(private_key(by), certificate(by))
        signature = sign(*(over or (body, extension)), FAR_GUID, HashAlgorithm.SHA1, signer)
        envelope = write_envelope(message, signature)
        content_type, payload = write_parts(envelope, body, extension, guid=FAR_GUID, number=1)
        parts = read_parts(content_type, payload)
        arrival = SrmpArrival(PEER, read_envelope(parts.envelope), parts, head_of(content_type))
        (verdict,) = self.run(lambda m: m.transfer.receive_srmp([arrival]))
        return verdict.status

    def signing(self, to: str = SIGNED, **elements: Any) -> SrmpMessage:
        return self.message(to, hash_algorithm=HashAlgorithm.SHA1, **elements)

    def flags(self, name: str) -> list[int]:
        return [read.flags & FLAG_AUTHENTICATED for read in self.reads(name)]
