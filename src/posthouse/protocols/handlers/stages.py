"""Staged writes over the API: rows come as Arrow, are stored invisibly, and are published."""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

from posthouse.api.stages import (
    BatchParams,
    DiscardedJson,
    PublishBody,
    PublishedJson,
    QueryJson,
    QueryParams,
    StagedJson,
    StageJson,
    StageListJson,
    StageParams,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines.stage import (
    BatchSignature,
    StagedRun,
    StageKey,
    StageTarget,
    Upload,
)
from posthouse.model.errors import QueueError
from posthouse.model.message_json import time_text
from posthouse.protocols.arrow.ipc_frames import Content, Frame
from posthouse.protocols.handlers.context import Context, Inflow
from posthouse.protocols.handlers.read_plans import not_loaded
from posthouse.protocols.handlers.refusals import BadRequest, Unavailable
from posthouse.protocols.handlers.request_steps import Ahead, Decide, Steps, at_once

LISTED_MAX = 1000
RESOLVED_AT_ONCE = 100


def _rows_module() -> Any:
    """What needs pyarrow and numpy; refused where they are not installed."""
    try:
        from posthouse.protocols.arrow.stages import rows as stage_rows
    except ImportError as error:
        raise not_loaded(error) from None
    return stage_rows


# -- writing


def put_stage(context: Context, params: StageParams, body: Nothing) -> Steps[StagedJson]:
    """Stages messages: rows of an Arrow IPC stream, durable and unseen until they are published.

    Takes the place of a stage with the same key. A row that cannot be a message refuses all of
    them, with its place and column. A stage that is not published expires.
    """
    inflow = context.inflow
    if inflow is None:
        raise Unavailable(
            "Arrow streams are available over HTTP only", "Send it with PUT, over HTTP."
        )
    rows = _rows_module()
    key = StageKey(params.query, params.batch, params.partition, params.attempt)
    signature = BatchSignature(params.content, params.run, params.writer)
    upload = yield from at_once(lambda m: m.stages.begin(key, context.caller, signature))
    if upload is None:
        while (yield inflow.next()).value is not None:
            inflow.done()
        return StagedJson(messages=0, bytes=0, already=True)
    try:
        yield from _Staging(context, inflow, rows, upload, params.queue).run()
        stage = yield from at_once(lambda manager: manager.stages.finish(upload))
    except Exception:
        yield Decide(lambda manager: manager.stages.abort(upload))
        raise
    return StagedJson(messages=stage.messages, bytes=stage.size)


class _Staging:
    """One upload, portion by portion."""

    def __init__(
        self, context: Context, inflow: Inflow, rows: Any, upload: Upload, queue: str
    ) -> None:
        self._context = context
        self._inflow = inflow
        self._rows = rows
        self._upload = upload
        self._queue = queue
        self._schema: Any = None
        self._targets: dict[str, StageTarget] = {}
        self._checked: set[str] = set()
        self._read = 0  # rows
        # Equal for all attempts at a batch, which its receivers see as one transaction.
        self._transaction = crc32(f"{upload.key.query}\0{upload.key.batch}".encode()) % 0xFFFFF + 1

    def run(self) -> Steps[None]:
        """All of the stream."""
        while True:
            frame = (yield self._inflow.next()).value
            if frame is None:
                break
            assert isinstance(frame, Frame)
            yield from self._take(frame)
            self._inflow.done()
        if self._schema is None:
            raise BadRequest("the stream has no schema")

    def _take(self, frame: Frame) -> Steps[None]:
        if frame.content is Content.SCHEMA:
            if self._schema is not None:
                raise BadRequest("the stream has a second schema")
            self._schema = self._rows.read_schema(frame.data)
            return
        if self._schema is None:
            raise BadRequest("the stream does not begin with its schema")
        offload = self._context.services.offload
        batch: Any = (yield offload(partial(self._rows.read_batch, frame.data, self._schema))).value
        portions = self._rows.portions(batch, self._queue, self._read)
        self._read += len(batch)
        while True:
            portion = (yield offload(partial(next, portions, None))).value
            if portion is None:
                return
            yield self._inflow.begin_portion()
            try:
                yield from self._append(portion)
            finally:
                self._inflow.end_portion()

    def _append(self, portion: Any) -> Steps[None]:
        yield from self._resolve(portion)

        def prepare(manager: QueueManager) -> None:
            machine = manager.machine
            maker.append(
                self._rows.Maker(
                    machine.identifier,
                    machine.utc,
                    machine.name,
                    self._upload.caller.sid,
                    self._transaction,
                    machine.time_to_reach_queue_max,
                )
            )
            numbers.append(manager.stages.reserve(portion.count))

        maker, numbers = list[Any](), list[tuple[int, list[int]]]()
        yield Ahead(prepare)
        make = partial(portion.runs, maker[0], self._targets, *numbers[0])
        runs: Any = (yield self._context.services.offload(make)).value
        yield Ahead(partial(self._stage, runs))

    def _stage(self, runs: list[StagedRun], manager: QueueManager) -> None:
        manager.stages.append(self._upload, runs)

    def _resolve(self, portion: Any) -> Steps[None]:
        """Queues that rows name for the first time: may they be sent to? Some in each turn."""
        names = [name for name in portion.destinations if name not in self._targets]
        for at in range(0, len(names), RESOLVED_AT_ONCE):
            yield Ahead(partial(self._open, portion, names[at : at + RESOLVED_AT_ONCE]))
        names = [name for name in portion.answer_queues if name not in self._checked]
        for at in range(0, len(names), RESOLVED_AT_ONCE):
            yield Ahead(partial(self._check, portion, names[at : at + RESOLVED_AT_ONCE]))

    def _open(self, portion: Any, names: list[str], manager: QueueManager) -> None:
        for name in names:
            try:
                self._targets[name] = manager.stages.target(self._upload, name)
            except QueueError as error:
                raise portion.refused(error, destination=name) from None

    def _check(self, portion: Any, names: list[str], manager: QueueManager) -> None:
        for name in names:
            try:
                manager.stages.check_answers(self._upload, name)
            except QueueError as error:
                raise portion.refused(error, answers=name) from None
            self._checked.add(name)


# -- publishing


def publish_batch(
    manager: QueueManager, context: Context, params: Nothing, body: PublishBody
) -> PublishedJson:
    """Publishes a batch: all messages of the stages named become available, in one commit.

    Other stages of the batch are dropped. A stage that is missing or has expired refuses all of
    it. The last batch published by this query may come again: `already` done. A lower number, or
    another content or another write under the same number, is refused: nothing of it is published.
    """
    signature = BatchSignature(body.content, body.run, body.writer)
    done = manager.stages.publish(body.query, body.batch, body.stages, context.caller, signature)
    return PublishedJson(messages=done.messages, already=done.already)


def discard_batch(
    manager: QueueManager, context: Context, params: BatchParams, body: Nothing
) -> DiscardedJson:
    """Drops the stages of a batch that is not going to be published.

    A token for some queues has to reach all queues that they go to.
    """
    return DiscardedJson(stages=manager.stages.discard(params.query, params.batch, context.caller))


# -- looking


def list_stages(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> StageListJson:
    """Lists stages that wait for their batch; those of other users are administrators' only.

    A token for some queues sees stages of these queues only.
    """
    expiry_s = manager.machine.settings.limits.stage_expiry_s
    found = manager.stages.listed(context.caller)
    shown = [
        StageJson(
            query=key.query,
            batch=key.batch,
            partition=key.partition,
            attempt=key.attempt,
            messages=stage.messages,
            bytes=stage.size,
            created_time=time_text(stage.created),
            expires_time=time_text(stage.created + expiry_s),
        )
        for key, stage in found[:LISTED_MAX]
    ]
    return StageListJson(stages=shown, left_out=len(found) - len(shown))


def show_query(
    manager: QueueManager, context: Context, params: QueryParams, body: Nothing
) -> QueryJson:
    """Shows how far a query has published."""
    known, stages = manager.stages.progress(params.query, context.caller)
    return QueryJson(
        query=params.query,
        batch=None if known is None else known.batch,
        messages=0 if known is None else known.messages,
        published_time=None if known is None else time_text(known.published),
        stages=stages,
    )


def forget_query(
    manager: QueueManager, context: Context, params: QueryParams, body: Nothing
) -> Done:
    """Forgets a query: how far it has published, and its stages.

    A token for some queues has to reach all queues that the last batch and the stages went to.
    """
    manager.stages.forget_query(params.query, context.caller)
    return Done()
