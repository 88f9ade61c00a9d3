"""A producer or consumer in a process of its own: `python -m benchmarks.peers.client ...`.

It reports in lines of JSON: `ready` when it is connected, then it waits for a line; `done` with its
times after that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import percentile
from benchmarks.peers.driver import Driver, Meter, make_driver
from benchmarks.peers.work import Load, Mode
from benchmarks.processes import Child, started

LIMIT_S = 180  # of one producer or consumer

Report = dict[str, float]
Waits = list[tuple[float, float]]


# -- the side that asks


@contextmanager
def client(role: str, peer: str, address: str, queue: str, load: Load) -> Iterator[Child]:
    """A client; one that takes too long is killed, which ends the run."""
    words = [role, peer, address, queue, load.mode.value, str(load.messages), str(load.size)]
    command = [sys.executable, "-m", "benchmarks.peers.client", *words]
    with started(command) as process:
        child = Child(f"{role} {peer}", process, time.monotonic())
        timer = threading.Timer(LIMIT_S, child.kill)
        timer.start()
        try:
            yield child
        finally:
            timer.cancel()


# -- the side that works


def main(role: str, peer: str, address: str, queue: str, *numbers: str) -> None:
    """The roles."""
    mode, messages, size = numbers
    load = Load(Mode(mode), int(messages), int(size))
    driver = make_driver(peer, address)
    if role == "prove":
        _prove(driver, queue, load)
    else:
        _measure(driver, role, queue, load)


def _measure(driver: Driver, role: str, queue: str, load: Load) -> None:
    meter = Meter(_wait)
    if role == "produce":
        driver.produce(queue, load, os.urandom(load.size), meter)
    else:
        _consume(driver, queue, load, meter)
    waits_ms = [(to - since) * 1e3 for since, to in meter.waits]
    _say(
        done=True,
        began=meter.began,
        ended=meter.ended,
        cpu_s=meter.cpu_s,
        groups=len(meter.laps),
        p50_ms=percentile(waits_ms, 0.5),
        p99_ms=percentile(waits_ms, 0.99),
    )


def _consume(driver: Driver, queue: str, load: Load, meter: Meter) -> None:
    """All that was sent has to come."""
    size = driver.consume(queue, load, meter)
    if size != load.messages * load.size:
        raise SystemExit(f"{size} bytes came of {load.messages} messages of {load.size}")


def _prove(driver: Driver, queue: str, load: Load) -> None:
    """Sends and receives groups, each acknowledged before the next; prints the times in UTC."""
    _wait()
    body, groups = os.urandom(load.size), range(load.messages)
    batch = Load(load.mode, 1 if load.mode is Mode.SINGLE else load.batch, load.size)
    sent = [_one(lambda meter: driver.produce(queue, batch, body, meter)) for _ in groups]
    received = [_one(lambda meter: _consume(driver, queue, batch, meter)) for _ in groups]
    _say(done=True, sent=_in_utc(sent), received=_in_utc(received))


def _one(work: Callable[[Meter], None]) -> tuple[float, float]:
    meter = Meter()
    work(meter)
    return meter.began, meter.ended


def _in_utc(waits: Waits) -> Waits:
    offset = time.time() - time.monotonic()
    return [(since + offset, to + offset) for since, to in waits]


def _wait() -> None:
    _say(ready=True)
    sys.stdin.readline()


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
