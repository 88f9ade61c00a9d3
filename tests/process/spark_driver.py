"""A Spark driver of its own: `python -m tests.process.spark_driver JOB`, and what starts it.

A job is a file of JSON. Its streams run until the driver's standard input ends; then they take what
is left, are stopped and settled. A stream that fails is started again from its checkpoint, as an
operator would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from posthouse.spark.worker_home import spark_home
from tests.process.spark_cluster import descendants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

END_S = 600.0
LOOK_S = 0.2
STUCK_S = 180.0  # a stream that fails may go so long without a batch that it commits


class Stream(msgspec.Struct):
    """From a queue, which it consumes, into something."""

    queue: str
    sink: str  # queue, parquet or lake
    target: str  # another queue, or a folder
    checkpoint: str
    limit: int = 400  # messages in a batch
    mischief: str = ""  # see clumsy_sink

    @property
    def group(self) -> str:
        return f"to-{self.sink}{self.mischief}"


class Job(msgspec.Struct):
    """What a driver does."""

    master: str
    url: str
    token_file: str
    streams: list[Stream]
    settings: dict[str, str] = {}
    follow: bool = True  # else it takes what is there and ends
    once: bool = False  # one batch of all that is there; what it took stays claimed at the end


# -- the process


class Driver:
    """A driver that runs; all that it started ends with it."""

    def __init__(self, folder: Path, job: Job) -> None:
        self.log = folder / "driver.txt"
        self.told = folder / "driver.json"
        path = folder / "job.json"
        path.write_bytes(msgspec.json.encode(job))
        with self.log.open("ab") as log, self.told.open("ab") as told:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.process.spark_driver", str(path)],
                stdin=subprocess.PIPE,
                stdout=told,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_HOME": str(spark_home()),
                },
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        assert self.process.poll() is None, self.said()

    def kill(self) -> None:
        """`kill -9` of the program and its JVM. What these leave behind has to find out itself."""
        jvms = [pid for pid in descendants(self.process.pid) if is_java(pid)]
        for pid in (*jvms, self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self._wait(10.0)

    def finish(self) -> list[dict[str, Any]]:
        """Ends its input and waits; returns what all drivers of the folder told."""
        code = self._wait(END_S)
        assert code == 0, self.said()
        return [json.loads(line) for line in self.told.read_text().splitlines()]

    def _wait(self, seconds: float) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            for pid in (*descendants(self.process.pid), self.process.pid):
                os.kill(pid, signal.SIGKILL)
            self.process.wait()


def is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:  # gone meanwhile
        return False


# -- checkpoints


def last_batch(checkpoint: str, log: str) -> int:
    """The highest batch that a log of a checkpoint has; -1 where there is none."""
    folder = Path(checkpoint, log)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def planned(stream: Stream) -> int:
    return last_batch(stream.checkpoint, "offsets")


def committed(stream: Stream) -> int:
    return last_batch(stream.checkpoint, "commits")


def parquet_files(folder: str) -> Iterator[Path]:
    """The files of a table that a stream wrote, as its log lists them: others do not count."""
    log = Path(folder, "_spark_metadata")
    whole = [path for path in log.iterdir() if path.suffix == ".compact"]
    first = max((int(path.stem) for path in whole), default=-1)
    later = [path for path in log.iterdir() if path.name.isdigit() and int(path.name) > first]
    for path in [*(path for path in whole if int(path.stem) == first), *later]:
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            assert entry["action"] == "add"
            yield Path(entry["path"].removeprefix("file://"))


def parquet_bodies(folder: str) -> list[bytes]:
    """What a stream wrote to a table."""
    from pyarrow import parquet

    files = parquet_files(folder)
    tables = [parquet.ParquetFile(path).read(columns=["body"]) for path in files]
    return [body for table in tables for body in table["body"].to_pylist()]


def lake_bodies(folder: str) -> list[bytes]:
    """What the files hold that the newest version of a lake names."""
    from pyarrow import parquet

    from posthouse.spark.lakes.files import LakeFiles

    files = [Path(folder, file.path) for file in LakeFiles(folder).state().files]
    tables = [parquet.ParquetFile(path).read(columns=["body"]) for path in files]
    return [body for table in tables for body in table["body"].to_pylist()]


# -- the program


def tell(**values: object) -> None:
    """A line for whoever started this."""
    print(json.dumps(values), flush=True)


def main(path: str) -> None:
    """Runs a job."""
    from posthouse.spark import session

    job = msgspec.json.decode(Path(path).read_bytes(), type=Job)
    spark = session("proof", job.master, **job.settings)
    tell(began=os.getpid())
    tell(done=True, batches=done(spark, job))
    spark.stop()


def done(spark: SparkSession, job: Job) -> int:
    """Does a job; the number of batches that were committed."""
    from posthouse.spark import settle

    batches = follow(spark, job) if job.follow else take_all(spark, job)
    for stream in () if job.once else job.streams:
        settle(stream.checkpoint, token_file=job.token_file)
    return batches


def source(spark: SparkSession, job: Job, stream: Stream) -> DataFrame:
    return (
        spark.readStream.format("posthouse")
        .option("url", job.url)
        .option("tokenFile", job.token_file)
        .option("queue", f".\\private$\\{stream.queue}")
        .option("consume", "onCommit")
        .option("group", stream.group)
        .option("checkpoint", stream.checkpoint)
        .option("maxMessagesPerTrigger", stream.limit)
        .option("minPartitions", 2)
        .load()
    )


def begin(spark: SparkSession, job: Job, stream: Stream) -> StreamingQuery:
    """Starts a stream, or goes on with it."""
    rows = source(spark, job, stream)
    if stream.sink == "queue":
        written = rows.select("body", "label", "priority").writeStream
        sink = written.format(sink_format(spark, stream)).option("url", job.url)
        sink = sink.option("tokenFile", job.token_file)
        sink = sink.option("queue", f".\\private$\\{stream.target}")
    else:
        sink = rows.writeStream.format("parquet").option("path", stream.target)
    sink = sink.queryName(stream.group).option("checkpointLocation", stream.checkpoint)
    if job.once:
        return sink.trigger(once=True).start()
    return (sink if job.follow else sink.trigger(availableNow=True)).start()


def sink_format(spark: SparkSession, stream: Stream) -> str:
    """The format to write with: ours, or ours in clumsy hands."""
    if not stream.mischief:
        return "posthouse"
    from tests.process import clumsy_sink

    name = f"clumsy-{stream.mischief}"
    folder = str(Path(stream.checkpoint).parent)
    spark.dataSource.register(clumsy_sink.made(name, stream.mischief, folder))
    return name


def follow(spark: SparkSession, job: Job) -> int:
    """Until the input ends, and then until the queues are empty."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    streams = [kept(spark, job, stream) for stream in job.streams]
    while not ended.wait(LOOK_S):
        for stream in streams:
            stream.keep()
    for stream in streams:
        stream.finish()
    return sum(committed(stream) + 1 for stream in job.streams)


def take_all(spark: SparkSession, job: Job) -> int:
    """Once, what is there."""
    before = sum(map(committed, job.streams))
    streams = [kept(spark, job, stream) for stream in job.streams]
    for stream in streams:
        stream.wait()
    return sum(map(committed, job.streams)) - before


failing: dict[str, tuple[int, float]] = {}
"""Of a stream, the last batch that was committed as it failed, and since when that is the last."""


def failed(stream: Stream, error: object) -> None:
    """Report a stream that has to be begun again; refuse one that gets no further.

    A queue manager that was killed is away for as long as a busy machine takes to start it again,
    and a stream fails many times meanwhile: only time without progress counts.
    """
    tell(failed=stream.group, error=str(error)[:4000])
    done, now = committed(stream), monotonic()
    last, since = failing.get(stream.group, (None, now))
    if last != done:
        since = now
    failing[stream.group] = done, since
    assert now - since < STUCK_S, f"no batch was committed after {done} for {STUCK_S} s"


class Kept:
    """A stream that is started again when it fails."""

    def __init__(self, spark: SparkSession, job: Job, stream: Stream) -> None:
        self._again = lambda: begin(spark, job, stream)
        self._stream = stream
        self._query = self._again()

    def keep(self) -> None:
        """Looks after it."""
        if not self._query.isActive:
            self._begin_again()

    def _begin_again(self) -> None:
        failed(self._stream, self._query.exception())
        self._query = self._again()

    def wait(self) -> None:
        """Until it has taken what is there."""
        while True:
            try:
                self._query.awaitTermination()
                return
            except Exception:
                self._begin_again()

    def finish(self) -> None:
        """Takes what is left, and stops."""
        while True:
            try:
                self._query.processAllAvailable()
                break
            except Exception:
                self._begin_again()
        self._query.stop()


class KeptArchive:
    """The same for the pipeline `archive`, in a thread of its own."""

    def __init__(self, spark: SparkSession, job: Job, stream: Stream) -> None:
        self._spark, self._job, self._stream = spark, job, stream
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        if job.follow:
            self._thread.start()

    def keep(self) -> None:
        """It looks after itself."""

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._archive(follow=True)

    def _archive(self, *, follow: bool) -> bool:
        from posthouse.spark import archive

        job, stream = self._job, self._stream
        try:
            archive(
                f".\\private$\\{stream.queue}",
                stream.target,
                url=job.url,
                token_file=job.token_file,
                consume=True,
                follow=follow,
                checkpoint=stream.checkpoint,
                spark=self._spark,
                max_messages=stream.limit,
                every_s=0.1,
                stop=self._stop if follow else None,
            )
        except Exception as error:
            failed(stream, error)
            return False
        return True

    def wait(self) -> None:
        """Until it has taken what is there."""
        while not self._archive(follow=False):
            continue

    def finish(self) -> None:
        """Takes what is left, and stops."""
        self._stop.set()
        self._thread.join()
        self.wait()


def kept(spark: SparkSession, job: Job, stream: Stream) -> Kept | KeptArchive:
    """A stream that goes on."""
    return (KeptArchive if stream.sink == "lake" else Kept)(spark, job, stream)


if __name__ == "__main__":
    main(sys.argv[1])
