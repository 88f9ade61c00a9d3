"""kill -9 of the server between stage, publish and answer: every batch is there, once and whole."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pyarrow as pa

from posthouse.client import stages
from posthouse.client.admin_http import BulkHttp
from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import ServiceNotAvailable
from tests.conftest import Dose
from tests.process.spark_office import SparkOffice, path_of

SCHEMA = pa.schema([("body", pa.binary())])
PARTITIONS, ROWS = 3, 400
LOST = (ClientConnectionError, ServiceNotAvailable)
PAUSE_S = 0.02


class Writer:
    """Writes batch after batch until it is told to stop; asks again whatever was not answered."""

    def __init__(self, office: SparkOffice, queue: str) -> None:
        self.written: list[bytes] = []
        self.failures: list[BaseException] = []
        self.lost = 0  # answers that did not come
        self._office = office
        self._queue = path_of(queue)
        self._attempts = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        batch = 0
        try:
            while not self._stop.is_set():
                self._write(batch)
                batch += 1
        except BaseException as error:
            self.failures.append(error)

    def _write(self, batch: int) -> None:
        with BulkHttp(self._office.url, token_file=str(self._office.token_file)) as http:
            chosen = [(part, self._stage(http, batch, part)) for part in range(PARTITIONS)]
            while True:
                try:
                    stages.publish(http, "writer", batch, chosen)
                    break
                except LOST:
                    self._pause()
        for part in range(PARTITIONS):
            self.written += bodies_of(batch, part)

    def _stage(self, http: BulkHttp, batch: int, part: int) -> int:
        rows = [
            pa.record_batch([pa.array(bodies_of(batch, part)[at : at + 100])], schema=SCHEMA)
            for at in range(0, ROWS, 100)
        ]
        while True:
            self._attempts += 1
            try:
                key = ("writer", batch, part, self._attempts)
                stages.stage(http, *key, SCHEMA, iter(rows), self._queue)
                return self._attempts
            except LOST:
                self._pause()

    def _pause(self) -> None:
        self.lost += 1
        time.sleep(PAUSE_S)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        if self.failures:
            raise self.failures[0]


def bodies_of(batch: int, part: int) -> list[bytes]:
    return [b"%d/%d/%d" % (batch, part, row) for row in range(ROWS)]


def test_batches_are_there_once_and_whole_however_often_the_server_is_killed(
    tmp_path: Path, dose: Dose
) -> None:
    chance, kills = Random(5), dose(5, 100)
    with ExitStack() as running:
        office = SparkOffice(tmp_path / "office", running)
        office.create("orders")
        writer = Writer(office, "orders")
        for _ in range(kills):
            time.sleep(chance.uniform(0.05, 0.6))
            office.server.kill()
            office.server.start()
        writer.stop()
        assert office.bodies("orders") == writer.written
        print(f"{len(writer.written)} messages, {writer.lost} answers lost in {kills} kills")
        assert writer.lost
        listed = office.qm.call("GET", "/stages")["stages"]
        batches = {stage["batch"] for stage in listed}
        assert all(f"{batch}/0/0".encode() not in writer.written for batch in batches)
