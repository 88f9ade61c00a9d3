"""`replay`: from a lake back to queues, each message once.

What is to be sent is planned first and kept: how far each queue of the lake goes, and ranges of
lookup ids with about equally many messages. Each range is one batch of the sink under the replay's
own query, which the queue manager sends once however often it comes: so a replay that was cut off
goes on where it was.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from posthouse.model.errors import InvalidParameter
from posthouse.spark.endpoint import http_now, http_of
from posthouse.spark.failures import SparkFailed, cause_of
from posthouse.spark.lakes.disk import Disk, locked
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.options import CONNECTION, managers, taken
from posthouse.spark.progress import Meter, Watch
from posthouse.spark.queries.guard import guarded_session
from posthouse.spark.replay_map import (
    Example,
    FunctionFailed,
    MapFunction,
    send_mapped,
    tried,
)
from posthouse.spark.selection import (
    Selection,
    Value,
    changed,
    check_where,
    checked_changes,
    destinations_of,
)
from posthouse.spark.sessions import classic, session
from posthouse.spark.sink_options import SINK

REPLAYS: Final = "replays"
BATCH: Final = 100_000  # messages that are sent in one step
CUTS_MAX: Final = 4096
PLAN: Final = "plan.json"
TRIES_MAX: Final = 3


class Sent(NamedTuple):
    """Messages for one destination."""

    destination: str
    messages: int
    bytes: int
    first: datetime | None
    last: datetime | None


class Replayed(NamedTuple):
    """What a `replay` did, or would do."""

    destinations: tuple[Sent, ...]
    sent: int  # by this call
    encrypted: int  # left out: only the queue they were sealed for can open them
    batches: int
    seconds: float
    dry_run: bool
    resumed: bool
    stopped: bool  # it was told to, before its end
    left_out: int = 0  # by the function
    examples: tuple[Example, ...] = ()  # of a dry run with a function

    @property
    def messages(self) -> int:
        """Of all destinations."""
        return sum(sent.messages for sent in self.destinations)


class Cut(msgspec.Struct, frozen=True):
    """Messages with lookup ids above one and up to another."""

    after: int
    last: int
    messages: int


class Plan(msgspec.Struct):
    """What a replay is about; kept until it is done, and of a job until another one does it."""

    query: str
    destinations: dict[str, str]
    through: dict[str, int]
    cuts: list[Cut]
    counts: list[list[Any]]
    encrypted: int
    done: int = 0  # batches that were sent for certain; the queue manager has the exact number
    job: str = ""  # whose replay it was, once that is done
    function: str = ""  # digest of the function that changes its messages
    left_out: int = 0  # by that function
    sent: int = 0
    asked: str = ""  # digest of the lake and the options; empty: a plan of an older version
    manager: str = ""  # GUID of the queue manager; empty: a plan of an older version

    @property
    def total(self) -> int:
        """Messages of all batches."""
        return sum(cut.messages for cut in self.cuts)


def replay(
    lake: str | os.PathLike[str],
    to: str | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    where: str | None = None,
    changes: Mapping[str, str] | None = None,
    function: MapFunction | None = None,
    accept_changed: bool = False,
    queues: Collection[str] | None = None,
    owner: str = "",
    job: str = "",
    same_ids: bool = False,
    rate: float | None = None,
    dry_run: bool = False,
    begin_again: bool = False,
    url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    batch: int = BATCH,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Watch | None = None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Sends messages of a lake again, exactly once, in the order of their lookup ids.

    `to` is where they go, `origin` the queue that each was in; `mapping` does so for some queues
    only, and without `to` no others are sent. `since` and `until` (excluded) are of `arrived_time`,
    `where` is a condition in SQL over the columns of a message; with `queues` the lake has the
    messages of these queues alone. `changes` are set in every message, such as
    `{"label": "again"}`; then `function` (of `load_function`) gets each one and returns it, or None
    to leave it out. It is tried on all messages before the first one is sent. A replay that was cut
    off does not go on with another function, unless `accept_changed`. Messages get new identifiers
    unless `same_ids`. `rate` is messages a second, on average. A call with the same arguments goes
    on with a replay that was cut off, if it was the same `owner`'s; one that came to its end is
    begun again, unless it is for the same `job`, which was not told of its end. One with other
    arguments is refused while another replay of this lake to the same queues is unfinished, unless
    `begin_again`.
    """
    if rate is not None and not rate > 0:
        raise InvalidParameter("a rate is messages a second, above 0", "Leave it out for no limit.")
    values = checked_changes(changes or {})
    files = LakeFiles(lake)
    there = files.state().queues
    known = there if queues is None else [queue for queue in there if queue in queues]
    destinations = destinations_of(known, to, mapping)
    made = guarded_session(classic(spark or session("replay", master), "replay"))
    if where:
        check_where(made, where)
    size = batch if rate is None else max(1, min(batch, round(rate)))
    through = None if function is None else Mapped(function, same_ids, accept_changed)
    work = Replay(files, made, Filters(since, until, where), size, values, through)
    if dry_run:
        return work.planned(destinations).result(dry_run=True)
    options = _access(url, token_file)
    manager = _identity(options)
    asked: list[object] = [manager, to, mapping]
    asked += [str(since), str(until), where, same_ids]
    if values:
        asked.append(values)
    if function is not None:
        asked.append({"function": True})  # a changed one goes on with the same plan, or is refused
    if queues is not None:
        asked.append(sorted(destinations))  # who may see less does not go on with another's plan
    if owner:
        asked.append(owner)  # to whom its batches belong at the queue manager
    key = json.dumps(asked, sort_keys=True)
    folder = _checkpoint(files, checkpoint, key)
    whole = sha256(f"{files.state().table.metadata().id}{key}".encode()).hexdigest()
    Disk().make_folder(folder)
    options["sameIds"] = str(same_ids).lower()
    with locked(folder / "lock", "the same replay runs already", wait_s=0.0):
        running = work.resumed(folder, job, whole)
        if running is None:
            if not (begin_again or owner):
                _check_unfinished(files, folder, manager, destinations.values())
            running = work.planned(destinations, whole, manager)
        running.send(folder, options, rate, Meter(progress, 0), stop or threading.Event())
        running.end(folder, job)
    return running.result(dry_run=False)


class Filters(NamedTuple):
    """Which messages, beside their queues."""

    since: datetime | None
    until: datetime | None
    where: str | None


class Mapped(NamedTuple):
    """The function that messages pass through."""

    function: MapFunction
    same_ids: bool
    accept_changed: bool = False


class Replay:
    """One replay: planned or found again, then sent."""

    def __init__(
        self,
        lake: LakeFiles,
        spark: SparkSession,
        filters: Filters,
        size: int,
        changes: Mapping[str, Value] | None = None,
        mapped: Mapped | None = None,
    ) -> None:
        self._lake = lake
        self._spark = spark
        self._filters = filters
        self._size = size
        self._changes = changes or {}
        self._mapped = mapped
        self._examples: tuple[Example, ...] = ()
        self._plan = Plan("", {}, {}, [], [], 0)
        self._resumed = False
        self._meter = Meter(None, 0)

    def planned(
        self, destinations: Mapping[str, str], asked: str = "", manager: str = ""
    ) -> Replay:
        """Counts what there is, and cuts it."""
        known = self._lake.state().queues
        through = {queue: known[queue] for queue in destinations}
        query = f"replay-{uuid4()}"
        self._plan = Plan(
            query, dict(destinations), through, [], [], 0, asked=asked, manager=manager
        )
        try:
            self._count()
            self._plan.cuts = self._cuts()
            if self._mapped is not None:
                self._try(self._mapped)
        except PySparkException as error:
            raise cause_of(error) from None
        return self

    def _try(self, mapped: Mapped) -> None:
        """The function has to work for every message before the first one is sent."""
        found = tried(mapped.function, self._each(), mapped.same_ids)
        self._plan.counts, self._plan.left_out = found.counts, found.left_out
        self._plan.function = mapped.function.digest
        self._examples = found.examples

    def _each(self, after: int = -1, last: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Messages one by one, in their order, in this process."""
        rows = changed(_in_order(self._rows(after, last)), self._changes)
        for row in rows.toLocalIterator():
            yield row.asDict()

    def resumed(self, folder: Path, job: str, asked: str) -> Replay | None:
        """The plan of a replay that was cut off, or that this job has done."""
        try:
            plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=Plan)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise InvalidParameter(
                f"{folder / PLAN} is not a plan of a replay: {error}", "Delete it to begin again."
            ) from None
        if plan.job and plan.job != job:
            return None
        if plan.asked not in ("", asked):
            raise InvalidParameter(
                f"{folder} has the progress of a replay with another lake or other options, which "
                f"was cut off: {plan.sent:,} of {plan.total:,} messages were sent",
                "Finish it with its own options, or name another folder: --checkpoint DIR. To give "
                f"it up, delete {folder / PLAN}.",
            )
        self._check_function(plan)
        self._plan, self._resumed = plan, True
        return self

    def _check_function(self, plan: Plan) -> None:
        """Whether what was begun may go on: with another function only if that is wanted."""
        mapped = self._mapped
        if mapped is None or plan.function == mapped.function.digest:
            return
        if not mapped.accept_changed:
            raise InvalidParameter(
                f"{mapped.function.name} has changed since this replay was cut off; "
                f"{plan.sent:,} messages were sent as the old one made them, of {plan.total:,}",
                "Put the old one back, or go on with the new one: --accept-changed-map.",
            )
        left = plan.cuts[plan.done].after if plan.done < len(plan.cuts) else None
        if left is not None:
            self._plan = plan
            tried(mapped.function, self._each(left), mapped.same_ids)
        plan.function = mapped.function.digest

    def _rows(self, after: int = -1, last: int | None = None) -> DataFrame:
        selection = Selection(self._plan.destinations, self._plan.through, *self._filters)
        return selection.rows(self._spark, self._lake, after, last)

    def _count(self) -> None:
        sealed = F.coalesce("encrypted", F.lit(False))
        counted = self._rows().groupBy("destination", sealed.alias("sealed"))
        found = counted.agg(
            F.count(F.lit(1)),
            F.sum("body_size"),
            F.unix_micros(F.min("arrived_time")),
            F.unix_micros(F.max("arrived_time")),
        ).collect()
        self._plan.encrypted = sum(row[2] for row in found if row[1])
        self._plan.counts = sorted([row[0], *row[2:]] for row in found if not row[1])

    def _cuts(self) -> list[Cut]:
        """Ranges of lookup ids with about equally many messages."""
        total = sum(count[1] for count in self._plan.counts)
        parts = min(ceil(total / self._size), CUTS_MAX)
        if not parts:
            return []
        ids = _open(self._rows()).select("lookup_id").repartitionByRange(parts, "lookup_id")
        part = F.spark_partition_id().alias("part")
        extremes = (F.max("lookup_id").alias("last"), F.count(F.lit(1)))
        found = ids.groupBy(part).agg(*extremes).orderBy("last").collect()
        lasts = [-1, *(row[1] for row in found)]
        return [Cut(lasts[n], row[1], row[2]) for n, row in enumerate(found)]

    def send(
        self,
        folder: Path,
        options: Mapping[str, str],
        rate: float | None,
        meter: Meter,
        stop: threading.Event,
    ) -> None:
        """Sends what has not been sent yet."""
        self._meter = meter
        cuts = self._plan.cuts
        meter.expect(sum(cut.messages for cut in cuts[self._plan.done :]))
        self._keep(folder)
        while self._plan.done < len(cuts) and not stop.is_set():
            self._send_batch(cuts[self._plan.done], options)
            self._plan.done += 1
            self._keep(folder)
            if rate is not None and self._plan.done < len(cuts):
                stop.wait(max(0.0, meter.now.done / rate - meter.now.seconds))

    def end(self, folder: Path, job: str) -> None:
        """The plan is done with, if all was sent; a job may come again, and must find it."""
        if self._plan.done < len(self._plan.cuts):
            return
        if job:
            self._plan.job = job
            self._keep(folder)
        else:
            (folder / PLAN).unlink()

    def _send_batch(self, cut: Cut, options: Mapping[str, str]) -> None:
        """Where Spark itself fails it is tried again, a few times: it is sent once all the same."""
        for left in reversed(range(TRIES_MAX)):
            try:
                sent = self._write(cut, options)
            except SparkFailed:
                if not left:
                    raise
            else:
                self._plan.sent += sent
                self._meter.add(sent)
                return

    def _write(self, cut: Cut, options: Mapping[str, str]) -> int:
        """Sends a batch, once; how many messages it has."""
        if self._mapped is not None:
            return self._write_mapped(self._mapped, cut, options)
        rows = _in_order(self._rows(cut.after, cut.last))
        writer = changed(rows, self._changes).write.format("posthouse").options(**options)
        writer = writer.option("queryId", self._plan.query).option("batchId", self._plan.done)
        try:
            writer.mode("append").save()
        except PySparkException as error:
            raise cause_of(error) from None
        return cut.messages

    def _write_mapped(self, mapped: Mapped, cut: Cut, options: Mapping[str, str]) -> int:
        (manager, *_) = managers(taken(options, SINK))
        key = (self._plan.query, self._plan.done)
        rows = self._each(cut.after, cut.last)
        try:
            with http_of(manager) as http:
                return send_mapped(http, *key, mapped.function, rows, mapped.same_ids)
        except PySparkException as error:
            raise cause_of(error) from None
        except FunctionFailed as error:
            error.remedy = (
                f"Nothing of this batch was sent; {self._plan.sent:,} messages were sent before "
                "it. Correct the function, and go on with --accept-changed-map."
            )
            raise

    def _keep(self, folder: Path) -> None:
        temporary = folder / f"{PLAN}.new"
        disk = Disk()
        disk.delete(temporary)
        disk.write(temporary, msgspec.json.encode(self._plan))
        disk.move(temporary, folder / PLAN)
        disk.sync_folder(folder)

    def result(self, *, dry_run: bool) -> Replayed:
        """What was done, or would be."""
        return Replayed(
            destinations=tuple(
                Sent(*count[:3], *map(_moment, count[3:])) for count in self._plan.counts
            ),
            sent=self._meter.now.done,
            encrypted=self._plan.encrypted,
            batches=len(self._plan.cuts) if dry_run else self._meter.now.batches,
            seconds=round(self._meter.now.seconds, 3),
            dry_run=dry_run,
            resumed=self._resumed,
            stopped=not dry_run and self._plan.done < len(self._plan.cuts),
            left_out=self._plan.left_out,
            examples=self._examples if dry_run else (),
        )


def _open(messages: DataFrame) -> DataFrame:
    """Without those that only their receiver can open."""
    return messages.where(~F.coalesce("encrypted", F.lit(False)))


def _in_order(messages: DataFrame) -> DataFrame:
    return _open(messages).orderBy("lookup_id", "queue_manager")


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else datetime.fromtimestamp(microseconds / 1e6, UTC)


def _checkpoint(lake: LakeFiles, given: str | os.PathLike[str] | None, key: str) -> Path:
    if given is not None:
        return Path(given).expanduser().absolute()
    return lake.progress_folder(REPLAYS, key)


def _check_unfinished(
    lake: LakeFiles, own: Path, manager: str, destinations: Collection[str]
) -> None:
    """Refuses a replay beside one that was cut off: what that has sent would be sent twice."""
    if lake.place.folder is None:
        return
    wanted = {destination.casefold() for destination in destinations}
    for path in sorted(lake.progress_folder(REPLAYS, "").parent.glob(f"*/{PLAN}")):
        try:
            plan = msgspec.json.decode(path.read_bytes(), type=Plan)
        except (FileNotFoundError, msgspec.DecodeError):
            continue
        same = sorted(wanted & {one.casefold() for one in plan.destinations.values()})
        if path.parent == own or plan.job or plan.manager not in ("", manager) or not same:
            continue
        raise InvalidParameter(
            f"a replay of {lake.place} to {same[0]} with other options is unfinished: at least "
            f"{plan.sent:,} of {plan.total:,} messages were sent",
            "Finish it with its own options; or begin another one, which may send the same "
            f"messages again: --begin-again. To give it up, delete {path}.",
        )


def _access(url: str | None, token_file: str | os.PathLike[str] | None) -> dict[str, str]:
    options = {} if url is None else {"url": url}
    return options if token_file is None else options | {"tokenFile": os.fspath(token_file)}


def _identity(options: Mapping[str, str]) -> str:
    """The queue manager's GUID: its address may be another one when a replay goes on."""
    (manager, *_) = managers(taken(options, CONNECTION))
    with http_now(manager) as http:
        return str(http.call("GET", "/status")["guid"])
