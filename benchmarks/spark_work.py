"""Work for Spark, in words that go to a driver of its own: where rows come from and where they go.

Imported by the run and by its drivers; nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Source = Literal["posthouse", "parquet", "generator", "rate"]
Target = Literal["posthouse", "parquet", "noop"]

PARTITIONS = 2
POOL_SIZE = 1 << 18  # of noise, from which bodies are cut
STRIDE = 1031  # a prime: bodies repeat only after the whole pool


class Place(NamedTuple):
    """The server's address, its token and a folder, which every piece of work needs."""

    url: str
    token_file: str
    folder: str  # for tables and checkpoints


class Work(NamedTuple):
    """One piece."""

    source: Source
    target: Target
    name: str = ""  # of the queue or table that is read
    to: str = ""  # the queue or table that is written
    rows: int = 0  # of a generator, or in each batch of a stream
    size: int = 0  # of a body that a generator makes
    batches: int = 0  # of a stream; 0: no stream
    skipped: int = 1  # batches of a stream that do not count
    consume: bool = False
    counts: str = ""  # how many rows there are of each value of this column; no others are read
    by_table: bool = False  # a queue by `posthouse.spark.table`, else by `load()` of the source
    decode: str = ""  # contents too, with body_json as `variant` or `string`
    seconds: float = 0.0  # repeat it this long


class Done(NamedTuple):
    """What came of it."""

    rows: int
    wall_s: float
    batch_ms: Sequence[int] = ()

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.wall_s


def in_words(work: Work) -> dict[str, Any]:
    """For a line of JSON."""
    return work._asdict()
