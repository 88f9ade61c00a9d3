"""Transaction tokens: the way a transaction travels to another queue manager.

A token names the coordinator, where it is asked, the transaction and the end of its validity, and
carries a code that only holders of the shared key can make. Anything else, a token of the Windows
coordinator included, is refused with MQ_ERROR_TRANSACTION_ENLIST (decision 51).
"""

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from posthouse.model.errors import TransactionEnlist
from posthouse.security.peers import KEY_SIZE, URL_LENGTH_MAX

MAGIC: Final = b"PHTX"
VERSION: Final = 1
MAC_SIZE: Final = 32

_FRONT = struct.Struct("<4sB16s16sQH")  # magic, version, coordinator, transaction, expiry, URL size
TOKEN_SIZE_MAX: Final = _FRONT.size + URL_LENGTH_MAX + MAC_SIZE


class EnlistmentToken(NamedTuple):
    """The fields of a token."""

    coordinator: bytes
    url: str
    transaction: bytes
    expires_s: int  # UTC


class SignedToken(NamedTuple):
    """A token as it came: not to be believed before `accepts`."""

    token: EnlistmentToken
    signed: bytes
    mac: bytes

    def accepts(self, key: bytes) -> bool:
        """Whether somebody who has the key made it."""
        return hmac.compare_digest(self.mac, _mac(key, self.signed))


def pack_token(token: EnlistmentToken, key: bytes) -> bytes:
    """The bytes that a client carries to the participant."""
    url = token.url.encode("ascii")
    assert len(url) <= URL_LENGTH_MAX
    front = _FRONT.pack(
        MAGIC, VERSION, token.coordinator, token.transaction, token.expires_s, len(url)
    )
    signed = front + url
    return signed + _mac(key, signed)


def parse_token(data: bytes) -> SignedToken:
    """A token read back; anything else gives TransactionEnlist."""
    if len(data) < _FRONT.size or not data.startswith(MAGIC):
        raise TransactionEnlist(
            "the transaction token is not one of this kind of queue manager",
            "Transactions of the Windows coordinator cannot be joined; use a local transaction.",
        )
    _, version, coordinator, transaction, expires_s, size = _FRONT.unpack_from(data)
    if version != VERSION:
        raise TransactionEnlist(f"the transaction token is of version {version}, not {VERSION}")
    end = _FRONT.size + size
    if size > URL_LENGTH_MAX or len(data) != end + MAC_SIZE:
        raise TransactionEnlist("the length in the transaction token is wrong")
    try:
        url = data[_FRONT.size : end].decode("ascii")
    except UnicodeDecodeError:
        raise TransactionEnlist("the address in the transaction token is not valid") from None
    token = EnlistmentToken(coordinator, url, transaction, expires_s)
    return SignedToken(token, data[:end], data[end:])


def _mac(key: bytes, signed: bytes) -> bytes:
    assert len(key) == KEY_SIZE
    return hmac.digest(key, signed, hashlib.sha256)
