"""Clusters of alike dead letters: the same reason, the same destination, alike bodies.

Spark finds the shape of each body and counts shapes; there are few of them, so the driver puts
those that are much alike together. A cluster is known by its oldest shape. Messages that come
later do not change its name, so that a name once printed can be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from posthouse.spark.body_shapes import LOOKED_AT_MAX, Shape, likeness, shape_of, short_hash
from posthouse.spark.rows.values import rows_of

ALIKE: Final = 0.6
SHAPES_MAX: Final = 2000
SAMPLE_SIZE: Final = 400
OTHERS: Final = "others"
"""The cluster of letters whose shape is not among the most frequent ones."""
KEY: Final = ("class_code", "destination", "kind", "shape")
_FOUND: Final = "kind string, shape string"
_READ: Final = ("body", "body_type", "body_size")
_BETWEEN: Final = "\x1f"  # the parts of a shape in one text


class ShapeCount(NamedTuple):
    """One shape among the dead letters of one reason and destination."""

    class_code: int
    destination: str
    kind: str
    shape: str
    messages: int
    body_bytes: int
    first_seen: datetime | None
    last_seen: datetime | None
    label: str | None
    sample: bytes | None


class Cluster(NamedTuple):
    """Shapes that are alike; the first of them is the oldest, and gives the name."""

    name: str
    shapes: tuple[ShapeCount, ...]

    @property
    def leader(self) -> ShapeCount:
        """The oldest shape."""
        return self.shapes[0]

    @property
    def messages(self) -> int:
        """All messages of it."""
        return sum(shape.messages for shape in self.shapes)

    @property
    def body_bytes(self) -> int:
        """The bytes of their bodies."""
        return sum(shape.body_bytes for shape in self.shapes)

    @property
    def last_seen(self) -> datetime | None:
        """When the newest came."""
        return max((one.last_seen for one in self.shapes if one.last_seen), default=None)


def with_shapes(messages: DataFrame) -> DataFrame:
    """The messages with `kind` and `shape` of their bodies, of which a `sample` is left."""
    shapes = arrow_udf(_shapes, _FOUND)  # type: ignore[call-overload]  # the type hints suffice
    shaped = messages.withColumns(
        {
            "class_code": F.coalesce("class_code", F.lit(0)),
            "destination": F.coalesce("destination", F.lit("")),
            "sample": F.substring("body", 1, SAMPLE_SIZE),
            # One byte more than is looked at, so that a longer body is known as such.
            "found": shapes(F.substring("body", 1, LOOKED_AT_MAX + 1), *_READ[1:]),
        }
    )
    kept = [name for name in shaped.columns if name not in ("body", "found")]
    return shaped.select(*kept, "found.kind", "found.shape")


def _shapes(bodies: pa.Array, types: pa.Array, sizes: pa.Array) -> pa.Array:
    """The shapes of a batch of bodies."""
    read = (column.to_pylist() for column in (bodies, types, sizes))
    shapes = [shape_of(*values) for values in zip(*read, strict=True)]
    kinds = pa.array([shape.kind for shape in shapes], pa.string())
    texts = pa.array([_joined(shape) for shape in shapes], pa.string())
    return pa.StructArray.from_arrays([kinds, texts], ["kind", "shape"])


def _joined(shape: Shape) -> str:
    text = _BETWEEN.join(part.replace(_BETWEEN, " ") for part in shape.parts)
    return text.encode("utf-8", "replace").decode()


def count_shapes(shaped: DataFrame) -> list[ShapeCount]:
    """The most frequent shapes, with an example of each."""
    seen = F.coalesce("arrived_time", "sent_time")
    counted = (
        shaped.groupBy(*KEY)
        .agg(
            F.count("*").alias("messages"),
            F.coalesce(F.sum("body_size"), F.lit(0)).alias("body_bytes"),
            F.min(seen).alias("first_seen"),
            F.max(seen).alias("last_seen"),
            F.min_by("label", "lookup_id").alias("label"),
            F.min_by("sample", "lookup_id").alias("sample"),
        )
        .orderBy(F.desc("messages"), *KEY)
        .limit(SHAPES_MAX)
    )
    return [ShapeCount(**row) for row in rows_of(counted)]


def clusters_of(counts: Iterable[ShapeCount]) -> list[Cluster]:
    """Alike shapes put together, the largest cluster first."""
    groups: dict[tuple[int, str, str], list[_Growing]] = {}
    for count in sorted(counts, key=_age):
        grown = groups.setdefault((count.class_code, count.destination, count.kind), [])
        parts = frozenset(count.shape.split(_BETWEEN))
        home = next((one for one in grown if likeness(one.parts, parts) >= ALIKE), None)
        if home is None:
            grown.append(_Growing(parts, [count]))
        else:
            home.shapes.append(count)
    made = [one.cluster() for grown in groups.values() for one in grown]
    return sorted(made, key=lambda one: (-one.messages, one.name))


def _age(count: ShapeCount) -> tuple[float, str, int, str]:
    first = count.first_seen.timestamp() if count.first_seen else 0.0
    return first, count.shape, count.class_code, count.destination


class _Growing(NamedTuple):
    parts: frozenset[str]
    shapes: list[ShapeCount]

    def cluster(self) -> Cluster:
        leader = self.shapes[0]
        name = short_hash(str(leader.class_code), leader.destination, leader.kind, leader.shape)
        return Cluster(name, tuple(self.shapes))


def with_clusters(shaped: DataFrame, clusters: Iterable[Cluster]) -> DataFrame:
    """The messages, each with the name of its cluster."""
    rows = [
        (shape.class_code, shape.destination, shape.kind, shape.shape, cluster.name)
        for cluster in clusters
        for shape in cluster.shapes
    ]
    schema = "class_code int, destination string, kind string, shape string, cluster string"
    names = shaped.sparkSession.createDataFrame(rows, schema)
    joined = shaped.join(F.broadcast(names), list(KEY), "left")
    return joined.withColumn("cluster", F.coalesce("cluster", F.lit(OTHERS)))


def shown_shape(shapes: Sequence[ShapeCount]) -> str:
    """What the bodies look like, for people."""
    leader = shapes[0]
    parts = tuple(part for part in leader.shape.split(_BETWEEN) if part)
    return Shape(leader.kind, parts).text
