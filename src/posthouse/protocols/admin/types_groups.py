"""The types of the API for named groups: durable places in queues."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.model.group_names import NAME_LENGTH_MAX, NAME_PATTERN, OWNER_LENGTH_MAX
from posthouse.protocols.admin.transfer_types import Part

_ID_MAX = (1 << 63) - 1
_PAGE_MAX = 200

QueueName = Annotated[str, Meta(min_length=1, max_length=1024)]
GroupName = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=NAME_LENGTH_MAX)]
Owner = Annotated[str, Meta(min_length=1, max_length=OWNER_LENGTH_MAX)]
Epoch = Annotated[int, Meta(ge=1, le=_ID_MAX)]
Position = Annotated[int, Meta(ge=0, le=_ID_MAX)]
Begin = Position | Literal["earliest", "latest"]
ModeWord = Literal["consume", "observe"]


class GroupsParams(Part):
    """So many of all groups, after so many that were seen."""

    offset: Annotated[int, Meta(ge=0, le=_ID_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=_PAGE_MAX)] = 100


class QueueGroupsParams(Part):
    """A queue by path name or format name."""

    queue: QueueName


class GroupParams(Part):
    """A group of a queue."""

    queue: QueueName
    group: GroupName


class LeaseBody(Part):
    """A lease for an owner in a new epoch; with an epoch: the renewal of that lease, or its end.

    Where a group that is new begins: `earliest` if nothing is said, `latest`, or behind a lookup
    id. One that is there keeps its position.
    """

    mode: ModeWord
    owner: Owner
    epoch: Epoch | None = None
    position: Begin | None = None
    end: bool = False


class ClaimBody(Part):
    """Everything up to this lookup id is to be kept from others."""

    epoch: Epoch
    through: Position


class AcknowledgeBody(Part):
    """Everything up to this id is dealt with; without an epoch: by a reader that has ended."""

    through: Position
    epoch: Epoch | None = None


class PositionBody(Part):
    """Where a group goes on: behind this lookup id, or at either end of the queue."""

    position: Begin


class GroupJson(Part):
    """A group: what it has acknowledged and claimed, who reads for it, how far it is behind.

    Messages with lookup ids up to `position` are acknowledged, those up to `claimed` are kept from
    others. What was received elsewhere, expired, purged or moved away is counted since the group
    was made. The bytes of a lag of more than a few messages are an estimate.
    """

    name: str
    queue: str
    mode: ModeWord
    position: int
    claimed: int
    claimed_messages: int
    epoch: int
    owner: str
    leased: bool
    lease_left_ms: int
    lag_messages: int
    lag_bytes: int
    acknowledged: int
    received_elsewhere: int
    expired: int
    purged: int
    moved_away: int
    created_time: str
    last_time: str


class AcknowledgedJson(GroupJson):
    """A group after an acknowledgment, and how many messages that received."""

    received: int


class ReleasedJson(GroupJson):
    """A group after its release, and how many messages are available again."""

    released: int


class GroupListJson(Part):
    """Groups, and the offset to go on at; null when these were the last."""

    groups: list[GroupJson]
    next: int | None
