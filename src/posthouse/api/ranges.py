"""The types of bulk reads: ranges of lookup ids, planned, split and streamed."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.api.types import LOOKUP_ID_MAX, U32_MAX, Json, Name, OptionalName

PLAN_QUEUES_MAX = 1000
PLAN_WAIT_MAX_MS = 1000
PARTS_MAX = 10_000
COUNT_MAX = (1 << 53) - 1

Position = Annotated[int, Meta(ge=0, le=LOOKUP_ID_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Limit = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
NumberList = Annotated[
    str,
    Meta(
        max_length=512,
        pattern=r"^([0-9]{1,5}(,[0-9]{1,5})*)?$",
        description="Numbers, separated by commas.",
    ),
]
Seconds = Annotated[int, Meta(ge=0, le=U32_MAX)]
ColumnList = Annotated[str, Meta(max_length=1024, description="Names, separated by commas.")]


class ArrowParams(Json):
    """Messages of a queue: those with lookup ids above `after`, up to `through`.

    Without `through`, up to the last one that is there now. Without `columns`, all of them but
    `body_text`. With `constants`, columns that are the same in every row are told once. `since` and
    `until` (UTC seconds, both included), `priorities` and `classes` (numbers joined by commas)
    leave out messages that arrived at another time or are of another sort.
    """

    queue: Name
    after: Position = 0
    through: Position | None = None
    columns: ColumnList = ""
    constants: bool = False
    since: Seconds = 0
    until: Seconds | None = None
    priorities: NumberList = ""
    classes: NumberList = ""


class IdentityBody(Json):
    """Where a reader has `after` from: an earlier plan's answers. Empty: it is not known."""

    manager: Annotated[str, Meta(max_length=64)] = ""
    incarnation: Annotated[str, Meta(max_length=64)] = ""
    created: Annotated[str, Meta(max_length=64)] = ""


class PlanQueueBody(Json):
    """A queue, and what to plan of it.

    `since` begins with the first message that arrived then or later; `through`, `max_messages` and
    `max_bytes` are where to end at the latest; of the limits one message is always in. A reader
    that goes on after an earlier plan sends the `identity` of `after` along, and learns whether it
    still holds. Without it an `after` that no message has had is refused. For the name of a group
    that consumes, the end lies before the first message that somebody else has locked.
    """

    queue: Name
    after: Position = 0
    group: OptionalName = ""
    since: Annotated[int, Meta(ge=0, le=U32_MAX)] | None = None
    max_messages: Limit | None = None
    max_bytes: Limit | None = None
    through: Position | None = None
    identity: IdentityBody | None = None


class PlanBody(Json):
    """The queues to plan; while none has anything new, the answer waits up to `wait_ms`."""

    queues: Annotated[list[PlanQueueBody], Meta(min_length=1, max_length=PLAN_QUEUES_MAX)]
    wait_ms: Annotated[int, Meta(ge=0, le=PLAN_WAIT_MAX_MS)] = 0


class PlanQueueJson(Json):
    """What there is to read: messages and their bytes above `after`, up to `end`.

    `earliest` is the first message's id, 0 without any; `latest` the last one's, or `after`.
    Purges have taken messages with ids up to `purged_through`. Journals and subqueues have the
    `created_time` of their queue.
    """

    queue: str
    earliest: Position
    latest: Position
    after: Position
    end: Position
    messages: Count
    bytes: Count
    purged_through: Position
    created_time: str


class IdentityJson(Json):
    """What the ids of a plan are: `end` was given by the start that `incarnation` names.

    Each start of a queue manager has another random name, and each queue another `created`. `loss`
    is why the identity of `after` does not hold: another queue `manager` answers, the `queue` was
    deleted and made again, this home does not have that `incarnation`, or the id lies `beyond` what
    was given. The plan then begins where nothing is passed over that is there now.
    """

    incarnation: str
    created: str
    loss: Literal["", "manager", "queue", "incarnation", "beyond"]


class PlanJson(Json):
    """A plan, in the order that was asked for; `identities` has an entry for each queue."""

    queue_manager: str
    guid: str
    queues: list[PlanQueueJson]
    identities: list[IdentityJson]


class SplitBody(Json):
    """A range of a queue, to be cut into about this many parts of about equal bytes."""

    queue: Name
    through: Position
    after: Position = 0
    parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = 1
    max_records: Limit | None = None


class CutJson(Json):
    """One part: the messages above `after`, up to `through`."""

    after: Position
    through: Position
    messages: Count
    bytes: Count


class SplitJson(Json):
    """The parts, in order; none where nothing is there."""

    cuts: list[CutJson]
