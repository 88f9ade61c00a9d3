"""The types of the API for messages that are received on a lease: taken, worked on, then ended."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from posthouse.api.types import (
    RECEIVE_MAX,
    WAIT_MAX_MS,
    Json,
    LookupId,
    MessageListJson,
    Name,
)

LeaseSeconds = Annotated[int, Meta(ge=1, le=3600)]


class TakeBody(Json):
    """Which messages to take, and for how long: the first `count`, or what comes in the time.

    They are locked for others until the lease is ended, or for `lease_s` seconds.
    """

    count: Annotated[int, Meta(ge=1, le=RECEIVE_MAX)] = 1
    timeout_ms: Annotated[int, Meta(ge=0, le=WAIT_MAX_MS)] = 0
    lease_s: LeaseSeconds = 60
    decode: bool = False


class LeasedJson(MessageListJson):
    """Messages on a lease; without messages `lease` is empty, and `reason` states why."""

    lease: str = ""
    lease_s: int = 0


class LeaseParams(Json):
    """A lease by its identifier."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class LeasesParams(Json):
    """Which leases: of a queue, of a user, or all."""

    queue: Name | None = None
    user: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class HeldLeaseJson(Json):
    """A lease that lasts: who has messages of which queue, and until when.

    `token` is the identifier of the token, or what stands for a password; the lease ends with it.
    """

    lease: str
    user: str
    token: str
    queue: str
    messages: int
    ends_time: str


class LeaseListJson(Json):
    """Leases, and how many more there are that are not listed."""

    leases: list[HeldLeaseJson]
    left_out: int = 0


class LeaseReleasedJson(Json):
    """A lease that was taken away, and how many messages are available again."""

    lease: str
    messages: int


class LeaseEndBody(Json):
    """What became of the messages: `received` removes them, `returned` gives them back.

    `lookup_ids` names some of the messages; without it, all that are left.
    """

    outcome: Literal["received", "returned"] = "received"
    lookup_ids: Annotated[list[LookupId], Meta(min_length=1, max_length=RECEIVE_MAX)] | None = None


class LeaseRenewBody(Json):
    """For how long the messages stay locked from now on."""

    lease_s: LeaseSeconds = 60


class LeaseJson(Json):
    """A lease: how many of its messages were ended by this call, and which are left."""

    lease: str
    ended: int = 0
    left: list[int] = msgspec.field(default_factory=list)
    lease_s: int = 0
