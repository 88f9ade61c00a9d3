"""Trusted queue managers: who they are, where they are called, and the key shared with each.

Values that the store keeps as records. The key proves the tokens and calls of section 6 of the
design; it is shown once, when the peer is added, and never in a list, a log or a `repr`.
"""

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from posthouse.model.errors import IllegalPropertyValue, InvalidParameter, MalformedPacket
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.text import excerpt

KEY_SIZE: Final = 32
PEER_NAME_LENGTH_MAX: Final = 64
URL_LENGTH_MAX: Final = 512
ADMIN_PORT: Final = 8816

_NAME = re.compile(r"[\w.-]+")
_KEY_TEXT = re.compile(r"phk_([0-9a-f]{64})")
_HOST = re.compile(r"[a-z0-9._:-]+")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A queue manager that this one trusts to coordinate, or to take part."""

    name: str
    guid: bytes
    url: str
    key: bytes
    created_s: int = 0

    def __repr__(self) -> str:
        return f"<peer {self.name!r} {format_guid(self.guid)} at {self.url!r}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("name", self.name), ("url", self.url)]  # rich asks here instead

    @property
    def host(self) -> str:
        """The host where it is called."""
        return urlsplit(self.url).hostname or ""

    def checked(self) -> "Peer":
        """The peer, if all of it is possible."""
        if not _NAME.fullmatch(self.name) or len(self.name) > PEER_NAME_LENGTH_MAX:
            raise InvalidParameter(
                f"{excerpt(self.name)} is not a name of a peer",
                f"Use letters, digits, dots and dashes, {PEER_NAME_LENGTH_MAX} at most.",
            )
        if len(self.guid) != 16 or self.guid == NULL_GUID:
            raise InvalidParameter("a peer has the identifier of a queue manager")
        if len(self.key) != KEY_SIZE:
            raise InvalidParameter(f"a shared key has {KEY_SIZE} bytes")
        if self.url != check_url(self.url):
            raise InvalidParameter(f"{excerpt(self.url)} is not in its plain form")
        return self


def peer_key(name: str) -> str:
    """The identity of a peer's name, however its letters are cased."""
    return name.casefold()


def check_url(text: str) -> str:
    """The plain form of an admin address: scheme, host and port, and nothing else."""
    refused = InvalidParameter(
        f"{excerpt(text)} is not an address of a queue manager",
        f"Write http://host:{ADMIN_PORT} or https://host:{ADMIN_PORT}.",
    )
    if len(text) > URL_LENGTH_MAX or not text.isascii() or not text.isprintable():
        raise refused
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port or ADMIN_PORT
    except ValueError:
        raise refused from None
    rest = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or rest or not _HOST.fullmatch(host):
        raise refused
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def key_text(key: bytes) -> str:
    """A shared key as text, with a prefix that scanners for leaked secrets can find."""
    assert len(key) == KEY_SIZE
    return f"phk_{key.hex()}"


def parse_key(text: str) -> bytes:
    """The shared key of that text; what is wrong with it is not repeated."""
    match = _KEY_TEXT.fullmatch(text.strip())
    if match is None:
        raise IllegalPropertyValue(
            "this is not a shared key", "It begins with phk_ and was shown when the peer was added."
        )
    return bytes.fromhex(match[1])


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Peer)


def encode_peer(peer: Peer) -> bytes:
    """The bytes that the store keeps."""
    return _ENCODER.encode(peer)


def decode_peer(data: bytes) -> Peer:
    """A peer as the store has it."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedPacket(f"record of a peer: {error}") from None
