"""What a pipeline costs others: senders beside it, and the memory of the queue manager."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.figures import Row
from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.server import serving
from benchmarks.spark_drivers import Bench, Dose, child, doses, path_of
from benchmarks.spark_work import Done, Work
from posthouse.client.connect import connect

SENT = "sent"  # the queue of the senders
MIB = 1 << 20
LOOK_S = 0.05


class Beside(NamedTuple):
    """What senders did beside some work, round by round, and how fast that was."""

    name: str
    sent: list[Done]
    read: list[Done]


class Senders(NamedTuple):
    """Alone, beside a read of the queue, beside the same work on Parquet files."""

    alone: Beside
    queue: Beside
    parquet: Beside

    @property
    def loss(self) -> float:
        """Which part of their rate the queue costs them more than the files do."""
        pairs = zip(self.queue.sent, self.parquet.sent, strict=True)
        return 1 - median(queue.rate / parquet.rate for queue, parquet in pairs)

    def rows(self) -> list[Row]:
        """For the table."""
        return [
            {
                "beside": name,
                "rate_per_s": median(done.rate for done in sent),
                "read_per_s": median(done.rate for done in read) if read else None,
            }
            for name, sent, read in self
        ]


def measure_senders(bench: Bench, rounds: int) -> Senders:
    """In every round all three, one after the other."""
    dose, seconds = doses(bench.run)[0], bench.run.seconds(8.0, 0.5)
    bench.create(SENT)
    words = ("nothing", "a Spark read of a queue", "the same work on Parquet files")
    found = Senders(*(Beside(name, [], []) for name in words))
    read = Work("posthouse", "noop", dose.queue, rows=dose.stock)
    works = (None, read, read._replace(source="parquet", name=dose.table))
    arguments = (str(bench.server.home), path_of(SENT), str(dose.size))
    with child("benchmarks.spark_senders", *arguments) as senders:
        senders.report("ready")
        for _ in range(rounds):
            bench.bar.step("senders beside a pipeline")
            for work, beside in zip(works, found, strict=True):
                if work:
                    # Longer than they send, so that they are never alone.
                    bench.tell(work._replace(seconds=seconds + 0.5))
                senders.tell(str(seconds))
                beside.sent.append(Done(**senders.report("wall_s")))
                if work:
                    beside.read.append(bench.hear())
    return found


# -- a whole queue into a lake


def measure_archive(bench: Bench) -> Row:
    """One command over a queue with a million messages."""
    dose = doses(bench.run)[0]
    bench.bar.step(f"archiving {dose.stock:,} messages")
    folder = bench.folder / "archived"
    folder.mkdir()
    return archived(folder, dose)


def archived(folder: Path, dose: Dose) -> Row:
    """How long an archive of a queue takes, and how much memory of the queue manager.

    That is a new one: memory that another one has free from earlier work would take all that an
    archive costs.
    """
    server = PosthouseServer(folder)
    with serving(server), connect(server.home) as manager:
        url, token_file = server.address.split()
        queue = manager.create_queue(path_of(dose.queue))
        bodies = (at.to_bytes(8, "little") * (dose.size // 8) for at in range(dose.stock))
        queue.send_many(bodies, recoverable=True, label="order")
        command = [sys.executable, "-m", "posthouse.cli.main", "pipeline", "archive", "--json"]
        command += [path_of(dose.queue), "--lake", str(folder / "lake"), "--consume"]
        command += ["--url", url, "--token-file", token_file]
        with Watch(server.pid) as watch:
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the archive failed: {done.stderr[-2000:]}")
        left = queue.count()
    if left:
        raise RuntimeError(f"the archive left {left:,} messages")
    seconds = float(json.loads(done.stdout.splitlines()[-1])["seconds"])
    return {
        "rows": dose.stock,
        "wall_s": watch.wall_s,
        "rate_per_s": dose.stock / watch.wall_s,
        "begun_per_s": dose.stock / seconds,
        "before_mib": watch.before / MIB,
        "peak_mib": watch.peak / MIB,
    }


class Watch:
    """Looks at the memory of a process, pages of files left out, as long as something lasts."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.before = self.peak = self._anonymous()
        self.wall_s = 0.0

    def _anonymous(self) -> int:
        lines = self._status.read_text(encoding="ascii").splitlines()
        (line,) = (line for line in lines if line.startswith("RssAnon:"))
        return int(line.split()[1]) * 1024

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.peak = max(self.peak, self._anonymous())

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s = time.monotonic() - self._began
        self._ended.set()
        self._thread.join()
