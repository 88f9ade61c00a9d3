"""A Spark driver that works when it is told: `python -m benchmarks.spark_child SETTINGS LOG ...`.

SETTINGS is `session`, as `posthouse.spark.session()` sets things up, or `defaults`, as Spark does.
Each line of its standard input is a piece of work, each line it prints is the result.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark_work import PARTITIONS, POOL_SIZE, STRIDE, Done, Place, Work
from posthouse.client.admin_http import BulkHttp
from posthouse.spark import session, sql, table
from posthouse.spark.sessions import prepare_environment

MASTER = f"local[{PARTITIONS}]"
LOOK_S = 0.02


def start(settings: str) -> SparkSession:
    """A session of this kind."""
    if settings == "session":
        return session("bench", MASTER)
    prepare_environment(MASTER)
    builder = SparkSession.builder.appName("bench").master(MASTER)
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    for name, value in {**quiet, "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Worker:
    """Does what it is told."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self.spark = spark
        self.place = place
        self._numbers = itertools.count()

    def do(self, work: Work) -> Done:
        """One piece, or the same piece over and over."""
        if work.batches:
            return self.stream(work)
        until = time.perf_counter() + work.seconds
        done = self.batch(work)
        while time.perf_counter() < until:
            more = self.batch(work)
            done = Done(done.rows + more.rows, done.wall_s + more.wall_s)
        return done

    # -- batches

    def batch(self, work: Work) -> Done:
        """Reads all and writes all."""
        began = time.perf_counter()
        out, to = self.rows(work).write.mode("append"), work.to or self.new("out")
        if work.target == "noop":
            out.format("noop").mode("overwrite").save()
        elif work.target == "parquet":
            out.parquet(self.path(to))
        else:
            out.format("posthouse").options(**self.access(to)).save()
        wall_s = time.perf_counter() - began
        if not work.to:
            shutil.rmtree(self.path(to), ignore_errors=True)
        return Done(work.rows, wall_s)

    def new(self, name: str) -> str:
        """A name that was never used."""
        return f"{name}-{os.getpid()}-{next(self._numbers)}"

    def rows(self, work: Work) -> DataFrame:
        """What is read, all columns of it, or how many rows there are of each value."""
        if work.counts:
            return self.counted(work)
        if work.by_table:
            url, token_file, _ = self.place
            least = str(PARTITIONS)
            return table(self.spark, work.name, url=url, token_file=token_file, minPartitions=least)
        if work.source == "posthouse":
            reader = self.spark.read.format("posthouse").options(**self.access(work.name))
            if work.decode:
                reader = reader.option("decode", True).option("bodyJson", work.decode)
            return reader.option("minPartitions", PARTITIONS).load()
        if work.source == "parquet":
            return self.spark.read.parquet(self.path(work.name))
        return generated(self.spark, work.rows, work.size)

    def counted(self, work: Work) -> DataFrame:
        """By a statement over the catalog, or over the table."""
        question = f"SELECT {work.counts}, count(*) FROM {{}} GROUP BY {work.counts}"
        if work.source == "parquet":
            return self.spark.sql(question.format(f"parquet.`{self.path(work.name)}`"))
        url, token_file, _ = self.place
        named = question.format(f"posthouse.{self.manager}.`{work.name}`")
        return sql(named, url=url, token_file=token_file, spark=self.spark)

    @cached_property
    def manager(self) -> str:
        """The name of the queue manager."""
        with BulkHttp(self.place.url, token_file=self.place.token_file) as http:
            return str(http.call("GET", "/status")["name"])

    # -- streams

    def stream(self, work: Work) -> Done:
        """Runs batches one after the other; the times are those that Spark reports."""
        table = self.path(self.new("out"))
        checkpoint = self.path(self.new("checkpoint"))
        query = self.begin(work, table, checkpoint)
        seen: dict[int, dict[str, Any]] = {}
        while len(seen) < work.batches:
            time.sleep(LOOK_S)
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    seen[progress["batchId"]] = progress
            if not query.isActive:
                raise RuntimeError(f"the stream ended: {query.exception()}")
        query.stop()
        for folder in (checkpoint, table):
            shutil.rmtree(folder, ignore_errors=True)
        counted = [seen[batch] for batch in sorted(seen)][work.skipped : work.batches]
        times = [progress["durationMs"]["triggerExecution"] for progress in counted]
        return Done(sum(each["numInputRows"] for each in counted), sum(times) / 1000, times)

    def begin(self, work: Work, table: str, checkpoint: str) -> StreamingQuery:
        """Starts it."""
        rows = self.stream_rows(work)
        out = rows.writeStream.option("checkpointLocation", checkpoint)
        if work.target == "parquet":
            return out.format("parquet").option("path", table).start()
        return out.format("noop").start()

    def stream_rows(self, work: Work) -> DataFrame:
        """A stream with this many rows in a batch."""
        if work.source == "rate":
            rate = self.spark.readStream.format("rate-micro-batch")
            rate = rate.option("rowsPerBatch", work.rows).option("numPartitions", PARTITIONS)
            return rate.load()
        reader = self.spark.readStream.format("posthouse").options(**self.access(work.name))
        reader = reader.option("maxMessagesPerTrigger", work.rows)
        if work.rows > 1:
            reader = reader.option("minPartitions", PARTITIONS)
        if work.consume:
            reader = reader.option("consume", "onCommit").option("group", "bench")
        return reader.load()

    def access(self, queue: str) -> dict[str, str]:
        """How to reach a queue."""
        url, token_file, _ = self.place
        return {"url": url, "tokenFile": token_file, "queue": f".\\private$\\{queue}"}

    def path(self, name: str) -> str:
        """A table or checkpoint."""
        return str(Path(self.place.folder, name))


def generated(spark: SparkSession, rows: int, size: int) -> DataFrame:
    """Rows with bodies that no disk can compress, made by the JVM at little cost."""
    pool = f.lit(random.Random(1801).randbytes(POOL_SIZE + size))
    at = (f.col("id") * STRIDE % POOL_SIZE + 1).cast("int")
    body = f.substring(pool, at, f.lit(size)).alias("body")
    label = f.concat(f.lit("order "), f.col("id").cast("string")).alias("label")
    return spark.range(0, rows, 1, PARTITIONS).select(body, label)


def main(settings: str, log: str, *place: str) -> None:
    """Works until there is no more work. The output of the JVM goes to a file."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    worker = Worker(start(settings), Place(*place))
    print(json.dumps({"ready": settings}), flush=True)
    for line in sys.stdin:
        done = worker.do(Work(**json.loads(line)))
        print(json.dumps(done._asdict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
