"""`archive`: queues and journals into a lake, each message once.

A stream reads the queues, and its tasks write each batch into files. The driver names them in the
lake's log in one step with the number of the batch: a batch that Spark comes with again is skipped,
and only what the lake has durably is received from a queue that is consumed.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from posthouse.client.arrow_read import LookupIdentity, PlannedQueue, QueuePlan
from posthouse.model.errors import InvalidParameter
from posthouse.spark.checkpoints import is_committed, last_committed
from posthouse.spark.endpoint import Endpoint, http_now
from posthouse.spark.failures import SparkFailed, cause_of
from posthouse.spark.lakes.archive_commit import Naming, RemoteBatches
from posthouse.spark.lakes.disk import Disk, locked
from posthouse.spark.lakes.files import FilesGone, LakeFiles
from posthouse.spark.lakes.shared_tally import NO_BATCH, SharedTally, Tally
from posthouse.spark.lakes.source import FORMAT, KNOWN, LAKE, RUN, STORAGE, ArchiveSource
from posthouse.spark.lakes.state import LakeState
from posthouse.spark.last_batch import settle
from posthouse.spark.options import SourceOptions, source_options
from posthouse.spark.progress import Meter, Watch
from posthouse.spark.queue_selection import asked_of
from posthouse.spark.sessions import is_connect, session

GROUP: Final = "archive"
JOURNAL: Final = ";journal"
CHECKPOINTS: Final = "checkpoints"
MESSAGES_MAX: Final = 250_000  # of one batch: what is done again after a crash
BYTES_MAX: Final = 256 << 20
EVERY_S: Final = 5.0
EARLIEST: Final = -2
LOOK_S: Final = 1
COMMIT_LOOK_S: Final = 0.05
STARTS_MAX: Final = 3


class _StreamEnds(Exception):
    """A batch is refused because the stream is being stopped; the next run takes it."""


class Archived(NamedTuple):
    """What an `archive` did."""

    messages: int
    batches: int
    files: int
    bytes: int
    seconds: float
    checkpoint: str
    stopped: bool  # it was told to, before its end


class Sources(NamedTuple):
    """The queues to archive as they were found."""

    options: dict[str, str]
    queues: dict[str, int]  # their full names, and how many messages the lake has not
    managers: dict[str, str]  # GUIDs by name
    known: dict[str, int]  # how far the lake has each queue, under all names of it

    @property
    def messages(self) -> int:
        """What there is to do."""
        return sum(self.queues.values())


def archive(
    queues: str | Iterable[str],
    lake: str | os.PathLike[str],
    *,
    url: str | Sequence[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    consume: bool = False,
    follow: bool = False,
    journals: bool = False,
    group: str = GROUP,
    checkpoint: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    remote: str | None = None,
    max_messages: int = MESSAGES_MAX,
    max_bytes: int = BYTES_MAX,
    every_s: float = EVERY_S,
    fail_on_data_loss: bool = True,
    keep: timedelta | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Watch | None = None,
    stop: threading.Event | None = None,
) -> Archived:
    """Copies the messages of queues into a lake, exactly once; receives them with `consume`.

    Returns when what was there at the start is done; with `follow` it goes on, with a batch every
    `every_s` seconds, until `stop` is set. Whatever ends it, the next call goes on where this one
    was, by its checkpoint, which lies in the lake unless it is named. `journals` takes the journal
    of each queue along. `group` names the durable position of a consuming reader. Where messages
    were purged before they were archived, it fails unless `fail_on_data_loss` is false. Days that
    are older than `keep` are dropped from the lake. `storage_options` open an object store, as
    `deltalake` takes them; then `checkpoint` names a folder. `remote` is a Spark Connect server
    (`sc://host:15002`), which has to see the folder of the checkpoint too.
    """
    files = LakeFiles(lake, storage_options=storage_options)
    sources = _sources(files, queues, url, token_file, journals)
    files.create()
    folder = _checkpoint(files, sources, checkpoint, group if consume else "")
    Disk().make_folder(folder.parent)
    held = f"another archive runs with the checkpoint {folder.name}"
    with locked(folder.with_name(f"{folder.name}.lock"), held, wait_s=0.0):
        files.know_managers(sources.managers)
        naming = Naming(files.place.uri, files.place.options, folder, keep)
        _check_checkpoint(files, naming, folder)
        options = _stream_options(files, sources, folder, group if consume else "")
        options |= {
            "maxMessagesPerTrigger": str(max_messages),
            "maxBytesPerTrigger": str(max_bytes),
            "failOnDataLoss": str(fail_on_data_loss).lower(),
        }
        meter = Meter(progress, 0 if follow else sources.messages)
        running = Archive(naming, folder, meter, stop)
        made = spark or session("archive", master, remote)
        running.run(made, options, every_s if follow else None)
        settle(folder, sources.options.get("url"), sources.options.get("tokenFile"))
        naming.tend()
    return running.result()


class Archive:
    """One run: the stream, and what it has written so far."""

    def __init__(
        self,
        naming: Naming,
        checkpoint: Path,
        meter: Meter,
        stop: threading.Event | None,
    ) -> None:
        self._naming = naming
        self._checkpoint = checkpoint
        self._tally = SharedTally(checkpoint)
        self._meter = meter
        self._stop = stop or threading.Event()
        self._in_batch = threading.Lock()
        self._failure: Exception | None = None
        self._stopped = False
        self._ending = False  # no batch of the stream begins any longer
        self._named = NO_BATCH  # the last batch of this stream that the lake has
        self._files = 0
        self._bytes = 0

    def run(self, spark: SparkSession, options: dict[str, str], every_s: float | None) -> None:
        """Reads and writes until it is done or told to stop.

        Where Spark itself fails, the stream is started again from its checkpoint, and where an
        erasure has deleted what a batch had written and not named yet. After a few starts without a
        batch in between it gives up.
        """
        spark.dataSource.register(ArchiveSource)
        starts, batches = 0, -1
        while True:
            if self._meter.now.batches > batches:
                starts, batches = 0, self._meter.now.batches
            starts += 1
            try:
                self._stream(spark, options, every_s)
            except (SparkFailed, FilesGone):
                if starts == STARTS_MAX or self._stop.is_set():
                    raise
            else:
                return

    def _stream(self, spark: SparkSession, options: dict[str, str], every_s: float | None) -> None:
        self._failure, self._named, self._ending = None, NO_BATCH, False
        remote = is_connect(spark)
        if remote:
            options = {**options, RUN: self._tally.begin()}
        try:
            stream = spark.readStream.format(FORMAT).options(**options).load()
            stream.schema  # noqa: B018 - over Connect it is the first question to the server
            batch = RemoteBatches(self._naming, self._checkpoint) if remote else self._batch
            writer = stream.writeStream.foreachBatch(batch)
            writer = writer.option("checkpointLocation", str(self._checkpoint))
            if every_s is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
            self._follow(writer.start(), remote)
        except PySparkException as error:
            raise self._failure or cause_of(error) from None
        finally:
            if remote:
                self._tally.end()

    def _follow(self, query: StreamingQuery, remote: bool) -> None:
        seen = Tally("")
        try:
            while not query.awaitTermination(LOOK_S):
                seen = self._note(seen) if remote else seen
                if self._stop.is_set():
                    self._stopped = True
                    break
            with self._in_batch:  # a batch that has begun is finished, and no other begins
                self._ending = True
            seen = self._note(seen) if remote else seen
            self._wait_for_commit(query)
        finally:
            query.stop()
            if remote:
                self._note(seen)

    def _wait_for_commit(self, query: StreamingQuery) -> None:
        """Waits until Spark has the last batch of the lake in its commit log.

        Only what is there is received from a queue that is consumed: a stream that is stopped
        earlier leaves messages in the queue that the lake has.
        """
        try:
            while query.isActive and not is_committed(self._checkpoint, self._named):
                query.awaitTermination(COMMIT_LOOK_S)  # type: ignore[arg-type]  # takes fractions
        except PySparkException:
            if not is_committed(self._checkpoint, self._named):
                raise
            # Else it is the batch after it, which was refused.

    def _note(self, seen: Tally) -> Tally:
        """What the server has written since it was asked last."""
        now = self._tally.read()
        if now.batches > seen.batches:
            self._files += now.files - seen.files
            self._bytes += now.bytes - seen.bytes
            self._meter.add(now.messages - seen.messages, now.batches - seen.batches)
            self._named = now.last
        return now

    def _batch(self, files: DataFrame, number: int) -> None:
        try:
            with self._in_batch:
                if self._ending:  # Spark's thread cannot be stopped while it waits for us
                    raise _StreamEnds(f"the archive was stopped before batch {number}")
                added = self._naming.add(files, number)
                self._files += len(added.files)
                self._bytes += added.bytes
                self._meter.add(added.rows)  # who watches may fail, which is our failure then
                self._named = number
        except _StreamEnds:
            raise
        except Exception as error:
            self._failure = cause_of(error) if isinstance(error, PySparkException) else error
            raise

    def result(self) -> Archived:
        """What was done."""
        done = self._meter.now
        return Archived(
            messages=done.done,
            batches=done.batches,
            files=self._files,
            bytes=self._bytes,
            seconds=round(done.seconds, 3),
            checkpoint=str(self._checkpoint),
            stopped=self._stopped,
        )


# -- before it begins


def _sources(
    lake: LakeFiles,
    queues: str | Iterable[str],
    url: str | Sequence[str] | None,
    token_file: str | os.PathLike[str] | None,
    journals: bool,
) -> Sources:
    """Finds the queues: whatever is wrong with names, rights or addresses is said here."""
    names = [queues] if isinstance(queues, str) else list(queues)
    names += [name + JOURNAL for name in names if journals and ";" not in name]
    options = {"queue": json.dumps(names)}
    if url is not None:
        options["url"] = url if isinstance(url, str) else ",".join(url)
    if token_file is not None:
        options["tokenFile"] = os.fspath(token_file)
    read = source_options(options)
    identities = _identities(read)
    if lake.state_or_none() is not None:
        lake.know_managers(identities)  # under new names, too, if there are some
    waiting, known = _waiting(lake, read)
    options["queue"] = json.dumps(sorted(waiting))
    return Sources(options, waiting, identities, known)


def _waiting(lake: LakeFiles, read: SourceOptions) -> tuple[dict[str, int], dict[str, int]]:
    """The full names of the queues with how many messages there are that the lake has not, and with
    how far it has them."""
    state = lake.state_or_none()
    endpoints = [Endpoint(manager) for manager in read.managers]
    found: dict[str, int] = {}
    known: dict[str, int] = {}
    try:
        for endpoint, names in asked_of(read, endpoints).items():
            whole = [plan.queue for plan in endpoint.plan([PlannedQueue(name) for name in names])]
            new = [_after_lake(name, state) for name in whole]
            after = {wanted.queue: wanted.after for wanted in new}
            for plan in endpoint.plan(new):
                _check_ids(lake, plan, after[plan.queue])
                known[plan.queue] = after[plan.queue]
                found[plan.queue] = plan.messages
    finally:
        for endpoint in endpoints:
            endpoint.close()
    return found, known


def _after_lake(queue: str, state: LakeState | None) -> PlannedQueue:
    """What the lake does not have of a queue, and which start gave the last id that it has."""
    if state is None:
        return PlannedQueue(queue)
    identity = LookupIdentity(incarnation=state.incarnation(queue))
    return PlannedQueue(queue, max(0, state.through(queue)), identity=identity)


def _check_ids(lake: LakeFiles, plan: QueuePlan, through: int) -> None:
    """A home that was put back gives ids again that the lake has for other messages."""
    if plan.loss:
        raise InvalidParameter(
            f"{lake.place} has messages of {plan.queue} up to lookup id {through}, which this home "
            "of the queue manager never gave: the home was put back from a copy or a backup. What "
            "it has now would be taken for what the lake has",
            "Archive into another folder: --lake DIR.",
        )


def _identities(read: SourceOptions) -> dict[str, str]:
    found = {}
    for manager in read.managers:
        with http_now(manager) as http:
            status: dict[str, Any] = http.call("GET", "/status")
        found[str(status["name"])] = str(status["guid"])
    return found


def _checkpoint(
    lake: LakeFiles, sources: Sources, given: str | os.PathLike[str] | None, group: str
) -> Path:
    """Where the stream keeps its progress: one place for each set of queues and each group."""
    if given is not None:
        return Path(given).expanduser().absolute()
    return lake.progress_folder(CHECKPOINTS, json.dumps([sorted(sources.queues), group]))


def _check_checkpoint(lake: LakeFiles, naming: Naming, folder: Path) -> None:
    """Refuses the checkpoint of another lake: what it has read would never be in this one.

    Spark commits a batch after the lake has it, so the lake has all that are committed.
    """
    last = last_committed(folder)
    if last < 0:
        return
    try:
        stream = naming.stream()
    except (FileNotFoundError, ValueError):
        raise InvalidParameter(
            f"the checkpoint {folder} has batches, and its file metadata is missing, empty or cut "
            "short, as a power failure leaves it",
            f"Move {folder} away and start again: the archive goes on after what the lake has.",
        ) from None
    if not lake.state().has(stream, last):
        raise InvalidParameter(
            f"the checkpoint {folder} has batches that {lake.place} does not have: it belongs to "
            "another lake, or this lake was made again or put back",
            "Name the lake of this checkpoint, or a new folder for the progress: --checkpoint DIR. "
            "A new one archives what is in the queues and not in the lake.",
        )


def _stream_options(
    lake: LakeFiles, sources: Sources, checkpoint: Path, group: str
) -> dict[str, str]:
    """A stream that only looks begins after what the lake has.

    One that consumes begins with the first message: what the lake has is received, not written.
    """
    options = {**sources.options, "checkpoint": str(checkpoint), LAKE: lake.place.uri}
    options[KNOWN] = json.dumps(sources.known)
    if lake.place.options:
        options[STORAGE] = json.dumps(dict(lake.place.options))
    if group:
        return options | {"consume": "onCommit", "group": group}
    begins = {queue: through or EARLIEST for queue, through in sources.known.items()}
    return options | {"startingOffsets": json.dumps(begins)}
