"""The types of bulk reads: ranges of lookup ids, planned, split and streamed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.protocols.admin.types import LOOKUP_ID_MAX, U32_MAX, Json, Name, OptionalName

PLAN_QUEUES_MAX = 1000
PLAN_WAIT_MAX_MS = 1000
PARTS_MAX = 10_000
COUNT_MAX = (1 << 53) - 1

Position = Annotated[int, Meta(ge=0, le=LOOKUP_ID_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Limit = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
ColumnList = Annotated[str, Meta(max_length=1024, description="names joined by commas")]


class ArrowParams(Json):
    """Messages of a queue: those with lookup ids above `after`, up to `through`.

    Without `through`, up to the last one that is there now. Without `columns`, all of them but
    `body_text`. With `constants`, columns that are the same in every row are told once.
    """

    queue: Name
    after: Position = 0
    through: Position | None = None
    columns: ColumnList = ""
    constants: bool = False


class PlanQueueBody(Json):
    """A queue, and what to plan of it.

    `since` begins with the first message that arrived then or later, `max_messages` and
    `max_bytes` say where to end at the latest; one message is always in. For the name of a group
    that consumes, the end lies before the first message that somebody else has locked.
    """

    queue: Name
    after: Position = 0
    group: OptionalName = ""
    since: Annotated[int, Meta(ge=0, le=U32_MAX)] | None = None
    max_messages: Limit | None = None
    max_bytes: Limit | None = None


class PlanBody(Json):
    """The queues to plan; while none has anything new, the answer waits up to `wait_ms`."""

    queues: Annotated[list[PlanQueueBody], Meta(min_length=1, max_length=PLAN_QUEUES_MAX)]
    wait_ms: Annotated[int, Meta(ge=0, le=PLAN_WAIT_MAX_MS)] = 0


class PlanQueueJson(Json):
    """What there is to read: messages and their bytes above `after`, up to `end`.

    `earliest` is the first message's id, 0 without any; `latest` the last one's, or `after`.
    Purges have taken messages with ids up to `purged_through`. A queue that was deleted and made
    anew has another `created_time`; journals and subqueues have that of their queue.
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


class PlanJson(Json):
    """A plan, in the order that was asked for."""

    queue_manager: str
    queues: list[PlanQueueJson]


class SplitBody(Json):
    """A range of a queue, to be cut into about so many parts of about equal bytes."""

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
