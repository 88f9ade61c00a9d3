"""Settling real checkpoints, in every format that Spark writes them in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from posthouse.spark import settle
from tests.process.spark_office import SparkOffice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """`settings(name, value)`: of the session, for one test."""
    changed = []

    def change(name: str, value: str) -> None:
        spark.conf.set(name, value)
        changed.append(name)

    yield change
    for name in changed:
        spark.conf.unset(name)


@pytest.mark.parametrize("source", ["", "orders"])
def test_offsets_of_format_2_are_settled(
    source: str,
    office: SparkOffice,
    queue: Callable[..., str],
    options: Callable[..., dict[str, str]],
    checkpoint: str,
    spark: SparkSession,
    settings: Callable[[str, str], None],
) -> None:
    name = queue()
    office.send(name, [b"1", b"2"])
    settings(FORMAT, "2")
    reader = spark.readStream.format("posthouse")
    if source:
        settings(EVOLUTION, "true")
        reader = reader.name(source)
    frame = reader.options(**options(name, consume="onCommit", group="archive")).load()
    writer = frame.writeStream.foreachBatch(lambda rows, batch: rows.collect())
    writer = writer.option("checkpointLocation", checkpoint).trigger(once=True)
    assert writer.start().awaitTermination(PATIENCE_S)
    version, _, line = Path(checkpoint, "offsets", "0").read_text().splitlines()
    assert version == "v2"
    assert json.loads(line.removeprefix(f"{source or 0}:"))["group"] == "archive"
    assert office.count(name) == 2, "a run with this trigger does not ask again after its batch"
    (settled,) = settle(checkpoint, token_file=str(office.token_file))
    assert (settled.group, settled.received) == ("archive", 2)
    assert office.count(name) == 0
