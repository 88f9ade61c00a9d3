"""The types of the API for named groups: durable places in queues."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.api.transfer import Part
from posthouse.model.group_names import NAME_LENGTH_MAX, NAME_PATTERN, OWNER_LENGTH_MAX

_ID_MAX = (1 << 63) - 1
_PAGE_MAX = 200

QueueName = Annotated[str, Meta(min_length=1, max_length=1024)]
GroupName = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=NAME_LENGTH_MAX)]
Owner = Annotated[str, Meta(min_length=1, max_length=OWNER_LENGTH_MAX)]
Epoch = Annotated[int, Meta(ge=1, le=_ID_MAX)]
Position = Annotated[int, Meta(ge=0, le=_ID_MAX)]
StreamName = Annotated[str, Meta(max_length=64)]
Incarnation = Annotated[str, Meta(max_length=64)]
Begin = Position | Literal["earliest", "latest"]
ModeWord = Literal["consume", "observe"]


class GroupsParams(Part):
    """This many of all groups, after this many that were seen."""

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

    Where a group that is new begins: `earliest` if nothing is said, `latest`, or after a lookup
    id. One that is there keeps its position.
    """

    mode: ModeWord
    owner: Owner
    epoch: Epoch | None = None
    position: Begin | None = None
    end: bool = False


class ClaimBody(Part):
    """The messages with lookup ids above `after`, up to `through`, are to be kept from others.

    Without `after` it is everything that the group has not acknowledged. Where messages lie between
    the group's position and `after` the claim is refused, or leaves them out if `skip` is true.
    `stream` names the reader's checkpoint: only it acknowledges what it has claimed. `incarnation`
    is that of `through`, as a plan names it; an unknown one is refused.
    """

    epoch: Epoch
    through: Position
    after: Position | None = None
    stream: StreamName = ""
    skip: bool = False
    incarnation: Incarnation = ""


class AcknowledgeBody(Part):
    """What is claimed up to this id is dealt with; without an epoch: by a reader that has ended.

    `stream` is the one of the claim.
    """

    through: Position
    epoch: Epoch | None = None
    stream: StreamName = ""


class ReleaseBody(Part):
    """With a stream: only what that stream has claimed."""

    stream: StreamName | None = None


class PositionBody(Part):
    """Where a group goes on: after this lookup id, or at either end of the queue."""

    position: Begin


class GroupJson(Part):
    """A group: what it has acknowledged and claimed, who reads for it, and its lag.

    Messages with lookup ids up to `position` are acknowledged, those above `claim_after` and up to
    `claimed` are kept from others, for the reader of `stream`. What was received elsewhere,
    expired, purged or moved away is counted since the group was made. The bytes of a lag of more
    than a few messages are an estimate.
    """

    name: str
    queue: str
    mode: ModeWord
    position: int
    claim_after: int
    claimed: int
    claimed_messages: int
    stream: str
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
