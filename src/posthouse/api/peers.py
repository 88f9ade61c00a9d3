"""The types of the API that concern other queue managers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.api.types import Guid, Json

PeerName = Annotated[str, Meta(min_length=1, max_length=64)]
Url = Annotated[
    str,
    Meta(
        min_length=8,
        max_length=512,
        description="URL of the peer's admin endpoint, such as http://host:8816.",
    ),
]
Key = Annotated[str, Meta(pattern="^phk_[0-9a-f]{64}$", max_length=68)]


class PeerParams(Json):
    """A peer by name."""

    name: PeerName


class PeerJson(Json):
    """A queue manager that is trusted with transactions. The shared key is never shown."""

    name: str
    guid: str
    url: str
    created_time: str


class PeerListJson(Json):
    """All peers."""

    peers: list[PeerJson]


class PeerAddBody(Json):
    """A peer to add; without a key a new one is made."""

    name: PeerName
    guid: Guid
    url: Url
    key: Key | None = None


class PeerAddedJson(Json):
    """A peer that was added; a key that was made is shown this once, for the other side."""

    peer: PeerJson
    key: str | None
