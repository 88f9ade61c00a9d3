"""The types of staged writes: batches of messages that are published as one commit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.api.types import Json, OptionalName, Time

NUMBER_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1
STAGES_MAX = 100_000  # named in one publish

QueryName = Annotated[str, Meta(min_length=1, max_length=200)]
Batch = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Partition = Annotated[int, Meta(ge=0, le=PARTITION_MAX)]
Known = Annotated[str, Meta(max_length=128)]


class StageParams(Json):
    """A stage: what one attempt at a partition of a query's batch writes.

    `queue` is where rows go that name no destination themselves. `content`, `run` and `writer` are
    those of the publish, as far as they are known by now.
    """

    query: QueryName
    batch: Batch
    partition: Partition
    attempt: Batch
    queue: OptionalName = ""
    content: Known = ""
    run: Known = ""
    writer: Known = ""


class BatchParams(Json):
    """A batch of a query."""

    query: QueryName
    batch: Batch


class QueryParams(Json):
    """A query."""

    query: QueryName


class StagedJson(Json):
    """What was staged; nothing was, where the batch is published already."""

    messages: int
    bytes: int
    already: bool = False


class PublishBody(Json):
    """The batch, and of each partition the attempt that counts.

    The last published batch is known by its number and by what is given here: the `content` it was
    made of (for example a hash of offsets), the `run` of the stream, and the `writer` that
    publishes it.
    """

    query: QueryName
    batch: Batch
    stages: Annotated[list[tuple[Partition, Batch]], Meta(max_length=STAGES_MAX)]
    content: Known = ""
    run: Known = ""
    writer: Known = ""


class PublishedJson(Json):
    """How many messages it was; `already`: this batch was published before."""

    messages: int
    already: bool


class DiscardedJson(Json):
    """How many stages are gone."""

    stages: int


class StageJson(Json):
    """A stage that waits for its batch to be published."""

    query: str
    batch: int
    partition: int
    attempt: int
    messages: int
    bytes: int
    created_time: Time
    expires_time: Time


class StageListJson(Json):
    """The stages, oldest first; `next` is how many were left out."""

    stages: list[StageJson]
    left_out: int


class QueryJson(Json):
    """How far a query has published; null: nothing yet, or nothing is known of it."""

    query: str
    batch: int | None
    messages: int
    published_time: Time | None
    stages: int
