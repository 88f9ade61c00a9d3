"""The types of the API for the rights on a queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.api.types import Json, Rights


class AccessEntryJson(Json):
    """Who may or may not do what."""

    who: str
    sid: str
    denied: bool
    rights: list[str]


class AccessJson(Json):
    """The access list of a queue, in the order in which it is heeded."""

    owner: str
    entries: list[AccessEntryJson]


class GrantBody(Json):
    """Rights for a user, `users`, `everyone`, `anonymous`, `administrators` or a SID."""

    who: Annotated[str, Meta(min_length=1, max_length=256)]
    rights: Rights


class AccessSetEntry(Json):
    """Rights that somebody gets, or is denied."""

    who: Annotated[str, Meta(min_length=1, max_length=256)]
    rights: Rights
    denied: bool = False


class AccessSetBody(Json):
    """A whole access list, which replaces the one of the queue; the owner stays."""

    entries: Annotated[list[AccessSetEntry], Meta(max_length=1000)]


class RevokeBody(Json):
    """Whose entries go."""

    who: Annotated[str, Meta(min_length=1, max_length=256)]
