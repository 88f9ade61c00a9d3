"""What a client writes into a message so that its queue manager signs or encrypts it."""

from __future__ import annotations

from posthouse.model.message import EncryptionAlgorithm, HashAlgorithm, Message, PrivacyLevel
from posthouse.security.sids import ANONYMOUS


def ask_protection(message: Message, *, sign: bool, encrypt: bool) -> None:
    """Set the attributes of a message that is to be signed, encrypted, or both.

    A packet that is to be signed also has the bits that `Template(message, sign=True)` writes.
    """
    if encrypt:
        message.privacy_level = PrivacyLevel.ADVANCED
        message.encryption_algorithm = EncryptionAlgorithm.AES256
    if sign:
        message.sender_identifier = ANONYMOUS  # the queue manager puts the sender there
        message.hash_algorithm = HashAlgorithm.SHA_512
