"""`deadletters`: dead letters by reason, sender, queue, hour, message type; clusters of alike ones.

The pass over the messages is one; what is kept of it has no bodies. Small tables come to the
driver, which writes them, the report and, letter by letter, which cluster each belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.model.errors import InvalidParameter
from posthouse.spark.body_shapes import beginning_text
from posthouse.spark.queries.tables import read_queue
from posthouse.spark.remedies import reason_of
from posthouse.spark.reports.clusters import (
    SAMPLE_SIZE,
    Cluster,
    clusters_of,
    count_shapes,
    shown_shape,
    with_clusters,
    with_shapes,
)
from posthouse.spark.reports.counting import (
    CONTENT_SCHEMAS,
    COUNTED,
    TIME,
    content_tables,
    count,
    with_content,
)
from posthouse.spark.reports.report import Report
from posthouse.spark.rows.values import Values, rows_of
from posthouse.spark.table_files import write_parquet, write_values

QUEUES: Final = (".\\system$;deadletter", ".\\system$;deadxact")
AT_ONCE: Final = 1000
"""Messages of one request to send again."""
_COLUMNS: Final = (
    "queue_manager queue lookup_id id label body body_type body_size class_code sent_time"
    " arrived_time source_queue_manager destination sender format message_type exception_type"
    " decode_error"
)
_LETTERS: Final = ("cluster", "queue", "lookup_id", "id", "label", "class_code", "destination")
_REASON: Final = tuple(pa.field(name, pa.string()) for name in ("reason", "meaning", "remedy"))
SCHEMAS: Final = {
    "by_reason": pa.schema([pa.field("class_code", pa.int32()), *_REASON, *COUNTED]),
    "by_sender": pa.schema(
        [pa.field("sender", pa.string()), pa.field("source_queue_manager", pa.string()), *COUNTED]
    ),
    "by_queue": pa.schema([pa.field("destination", pa.string()), *COUNTED]),
    "by_hour": pa.schema([pa.field("hour", TIME), pa.field("reason", pa.string()), *COUNTED]),
    "clusters": pa.schema(
        [
            pa.field("cluster", pa.string()),
            pa.field("class_code", pa.int32()),
            *_REASON,
            pa.field("destination", pa.string()),
            pa.field("shape", pa.string()),
            pa.field("label", pa.string()),
            pa.field("sample", pa.string()),
            *COUNTED,
        ]
    ),
    **CONTENT_SCHEMAS,
}


class Resent(NamedTuple):
    """What came of sending a cluster again."""

    matched: int
    done: int
    gone: int
    refused: int
    error: str


class DeadLetters(Report):
    """Dead letters, counted; `close` frees what Spark holds of them."""

    def __init__(self, messages: DataFrame) -> None:
        super().__init__(with_shapes(with_content(messages)))
        self.clusters = clusters_of(count_shapes(self._kept))
        self.letters = with_clusters(self._kept, self.clusters).select(*_LETTERS)

    @cached_property
    def tables(self) -> dict[str, list[Values]]:
        """Rows by the names of SCHEMAS, the most frequent first; counted when asked for."""
        return {
            "by_reason": [_with_reason(row) for row in self._counted("class_code")],
            "by_sender": self._counted("sender", "source_queue_manager"),
            "by_queue": self._counted("destination"),
            "by_hour": self._by_hour(),
            "clusters": [_cluster_row(cluster) for cluster in self.clusters],
            **content_tables(self._kept),
        }

    @property
    def messages(self) -> int:
        """How many there are."""
        return sum(row["messages"] for row in self.tables["by_reason"])

    def write(self, folder: Path) -> None:
        """The tables as Parquet, one file each, and `letters`: the cluster of every message."""
        for name, schema in SCHEMAS.items():
            write_values(folder / f"{name}.parquet", self.tables[name], schema)
        write_parquet(folder / "letters.parquet", self.letters)

    def resend(
        self,
        name: str,
        http: BulkHttp,
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Resent:
        """Sends the messages of a cluster where they were to go; they are dead letters no more."""
        cluster = next((one for one in self.clusters if one.name == name), None)
        if cluster is None:
            known = ", ".join(one.name for one in self.clusters[:10]) or "none"
            raise InvalidParameter(
                f"there is no cluster {name!r}", f"The largest ones are: {known}."
            )
        chosen = self.letters.where(F.col("cluster") == name).select("queue", "lookup_id")
        by_queue: dict[str, list[int]] = {}
        for row in chosen.toLocalIterator():
            by_queue.setdefault(row["queue"], []).append(row["lookup_id"])
        return _resend(http, by_queue, dry_run=dry_run, progress=progress)

    def _counted(self, *keys: str) -> list[Values]:
        return rows_of(count(self._kept, *keys))

    def _by_hour(self) -> list[Values]:
        hours = self._kept.withColumn("hour", F.date_trunc("hour", "arrived_time"))
        rows = rows_of(count(hours, "hour", "class_code"))
        for row in rows:
            row["reason"] = reason_of(row.pop("class_code")).word
        return sorted(rows, key=lambda row: (str(row["hour"]), row["reason"]))


def deadletters(
    spark: SparkSession, options: Mapping[str, str], queues: Sequence[str] = QUEUES
) -> DeadLetters:
    """Counts the dead letters of a queue manager; `options` lead to it, as those of the source."""
    wanted = {**options, "columns": ",".join(_COLUMNS.split())}
    return DeadLetters(read_queue(spark, wanted, *queues))


def _with_reason(row: Values) -> Values:
    reason = reason_of(row["class_code"])
    return {**row, "reason": reason.word, "meaning": reason.meaning, "remedy": reason.remedy}


def _cluster_row(cluster: Cluster) -> Values:
    leader = cluster.leader
    row = {
        "cluster": cluster.name,
        "class_code": leader.class_code,
        "destination": leader.destination,
        "shape": shown_shape(cluster.shapes),
        "label": leader.label or "",
        "sample": shown_body(leader.sample),
        "messages": cluster.messages,
        "body_bytes": cluster.body_bytes,
        "first_seen": leader.first_seen,
        "last_seen": cluster.last_seen,
    }
    return _with_reason(row)


def shown_body(sample: bytes | None) -> str:
    """The beginning of a body for people: as text where it is some, else its bytes."""
    if not sample:
        return ""
    text = beginning_text(sample, 0, is_cut=len(sample) >= SAMPLE_SIZE)
    return sample[:32].hex(" ") if text is None else text


def _resend(
    http: BulkHttp,
    by_queue: Mapping[str, list[int]],
    *,
    dry_run: bool,
    progress: Callable[[int, int], None] | None,
) -> Resent:
    total = Resent(0, 0, 0, 0, "")
    in_all = sum(map(len, by_queue.values()))
    for queue, portion in _portions(by_queue):
        body: dict[str, Any] = {"lookup_ids": portion, "dry_run": dry_run}
        answer = http.call("POST", f"/queues/{segment(queue)}/resend", body)
        total = _sum(total, answer)
        if progress is not None:
            progress(total.matched, in_all)
    return total


def _portions(by_queue: Mapping[str, list[int]]) -> Iterable[tuple[str, list[int]]]:
    for queue, lookup_ids in by_queue.items():
        lookup_ids.sort()
        for at in range(0, len(lookup_ids), AT_ONCE):
            yield queue, lookup_ids[at : at + AT_ONCE]


def _sum(total: Resent, answer: Mapping[str, Any]) -> Resent:
    error = answer["error"]
    return Resent(
        total.matched + answer["matched"],
        total.done + answer["done"],
        total.gone + answer["gone"],
        total.refused + answer["refused"],
        total.error or (error["cause"] if error else ""),
    )
