"""Senders beside a pipeline: `python -m benchmarks.spark_senders HOME QUEUE SIZE`.

Each line of standard input is a number of seconds; for this time both send as fast as they can, a
batch at a time, each answered when it is on disk. Then the queue is emptied, and a line reports
what was sent.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from benchmarks.samples import body_of
from posthouse.client.connect import connect
from posthouse.client.manager import QueueManagerClient

SENDERS = 2
BATCH = 50


def send_for(manager: QueueManagerClient, queue: str, size: int, seconds: float) -> int:
    """Sends until the time is over; returns how many messages."""
    bodies = [body_of(number)[:size] for number in range(BATCH)]
    target, sent, until = manager.queue(queue), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        target.send_many(bodies, recoverable=True)
        sent += BATCH
    return sent


def main(home: str, queue: str, size: str) -> None:
    """Measures whenever it is told to."""
    managers = [connect(home) for _ in range(SENDERS)]
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        sent, began = [0] * SENDERS, time.monotonic()

        def work(number: int, sent: list[int] = sent, seconds: float = float(line)) -> None:
            sent[number] = send_for(managers[number], queue, int(size), seconds)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall_s = time.monotonic() - began
        managers[0].queue(queue).purge()
        print(json.dumps({"rows": sum(sent), "wall_s": wall_s}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
