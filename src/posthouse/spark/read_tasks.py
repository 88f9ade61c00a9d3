"""Read tasks: the portion of a queue that one task reads."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from posthouse.client import arrow_read as bulk_read
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import EVERY_ROW, Cut, PlannedQueue, RowChoice
from posthouse.model.errors import QueueError
from posthouse.model.message_columns import DECODED_NAMES
from posthouse.spark.data_loss import DataLoss as DataLoss
from posthouse.spark.data_loss import check_loss as check_loss
from posthouse.spark.endpoint import Endpoint, borrowed
from posthouse.spark.options import Manager, SourceOptions
from posthouse.spark.queue_selection import Place
from posthouse.spark.schema import promised

if TYPE_CHECKING:
    import pyarrow

    from posthouse.spark.rows.decoded import Decoding

_log = logging.getLogger(__name__)
PORTION_BYTES: Final = 32 << 20
PORTIONS_MAX: Final = 10_000


class Extent(NamedTuple):
    """A range of one queue that is to be read, and the purges that were known when it was."""

    place: Place
    cut: Cut
    purged: int


class Portion(InputPartition):
    """What one task reads: a range of one queue. Pickled; all that the task needs is in it."""

    def __init__(
        self,
        manager: Manager,
        extent: Extent,
        cut: Cut,
        strict: bool,
        choice: RowChoice = EVERY_ROW,
    ) -> None:
        self.manager = manager
        self.queue = extent.place.queue
        self.cut = cut
        self.purged = extent.purged
        self.strict = strict
        self.choice = choice

    def __repr__(self) -> str:
        return f"{self.queue} ({self.cut.after}, {self.cut.through}]"


def portions(
    extents: Sequence[Extent], options: SourceOptions, choice: RowChoice = EVERY_ROW
) -> list[Portion]:
    """The ranges of all queues, cut into portions of alike size."""
    total = sum(extent.cut.bytes for extent in extents)
    wanted = portion_bytes(total, options.min_partitions or 1)
    made = []
    for extent in extents:
        parts = min(-(-extent.cut.bytes // wanted), PORTIONS_MAX) or 1
        for cut in _cuts(extent, parts, options.max_records):
            manager = extent.place.endpoint.manager
            made.append(Portion(manager, extent, cut, options.fail_on_data_loss, choice))
    return made


def portion_bytes(total: int, least: int) -> int:
    """How large portions are of which there are to be this many at least.

    Where that many would be too large there are some times as many, so that none is left over for
    which everybody waits.
    """
    times = -(-total // (PORTION_BYTES * least)) or 1
    return -(-total // (times * least)) or 1


def _cuts(extent: Extent, parts: int, max_records: int | None) -> Iterable[Cut]:
    if not extent.cut.messages:
        return []
    if parts == 1 and (max_records is None or extent.cut.messages <= max_records):
        return [extent.cut]
    return extent.place.endpoint.split(extent.place.queue, extent.cut, parts, max_records)


def counted(endpoint: Endpoint, queue: str, after: int, through: int) -> Cut:
    """A range that somebody else chose, with what is in it now."""
    cuts = endpoint.split(queue, Cut(after, through, 0, 0), 1, None)
    messages, size = sum(cut.messages for cut in cuts), sum(cut.bytes for cut in cuts)
    return Cut(after, through, messages, size)


def read_portion(
    portion: InputPartition,
    columns: Sequence[str],
    sure: Collection[str] = (),
    as_text: bool = False,
) -> Iterator[pyarrow.RecordBatch]:
    """The messages of a portion as Arrow has them. A pure peek: it may be read again.

    The columns that are `sure` are never null. Columns of what is in messages are made here;
    `as_text`: with JSON values as texts.
    """
    if not isinstance(portion, Portion):  # Spark's own, where there was nothing to plan
        return
    _settle_in()
    cut, rows, decoding = portion.cut, 0, decoding_of(columns, as_text)
    fetched = columns if decoding is None else decoding.fetched
    with borrowed(portion.manager) as http:
        code_page = CodePage(http, portion.queue)
        found = bulk_read.read(http, portion.queue, cut.after, cut.through, fetched, portion.choice)
        for batch in found:
            rows += batch.num_rows
            pieces = [batch] if decoding is None else decoding.applied(batch, code_page)
            for piece in pieces:
                yield promised(piece, sure)
        if rows < cut.messages and portion.choice == EVERY_ROW:
            _log.info(
                "%d messages of %s were received elsewhere, purged or expired before the read",
                cut.messages - rows, portion.queue,
            )  # fmt: skip
        if portion.strict and rows < cut.messages:  # received elsewhere and expired is well
            (plan,) = bulk_read.plan(http, [PlannedQueue(portion.queue, cut.through)]).queues
            check_loss(portion.queue, cut.after, portion.purged, plan.purged_through)


def decoding_of(columns: Sequence[str], as_text: bool) -> Decoding | None:
    """What makes the columns that are not read, None where all are."""
    if not set(columns) & set(DECODED_NAMES):
        return None
    from posthouse.spark.rows.decoded import Decoding

    return Decoding(columns, as_text)


class CodePage:
    """The code page of a queue, asked for once and only where a body needs it."""

    def __init__(self, http: BulkHttp, queue: str) -> None:
        self._http = http
        self._queue = queue
        self._known: str | None = None

    def __call__(self) -> str:
        if self._known is None:
            self._known = ""
            with suppress(QueueError):  # a token may lack the right to look at properties
                found = self._http.call("GET", f"/queues/{segment(self._queue)}")
                self._known = str(found.get("code_page", ""))
        return self._known


@cache
def _settle_in() -> None:
    """Once in a worker: Spark looks for garbage after every task, in all that was imported too.

    That takes longer than a small task; modules stay anyway.
    """
    gc.freeze()
