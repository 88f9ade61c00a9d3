"""The benchmark of Spark runs, says all it promises, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import spark
from benchmarks.spark_beside import archived
from benchmarks.spark_decoded import STOCKS
from benchmarks.spark_drivers import SIZES, Dose

ROOT = Path(__file__).parents[2]


@pytest.mark.soak  # three drivers; `tests/test_benchmarks.py` has the benchmarks without Spark
def test_a_quick_run_prints_every_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", "--directory"]
    done = subprocess.run(
        [*command, str(tmp_path), spark.NAME], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    tables: dict[str, list[dict[str, Any]]] = {}
    for line in map(json.loads, done.stdout.splitlines()[1:]):
        tables.setdefault(line["table"], []).append(line)
    assert tables.keys() == {"rates", "latency", "senders", "decoded", "archive", "goals"}
    assert [(row["work"], row["size"]) for row in tables["rates"]] == [
        (case.name, SIZES[0]) for case in spark.CASES
    ]
    assert len(tables["latency"]) == len(tables["senders"]) == 3
    assert len(tables["goals"]) == 7 + len(STOCKS)
    assert len(tables["decoded"]) == 2 * len(STOCKS)
    for name in ("rates", "latency", "senders", "decoded", "archive"):
        for row in tables[name]:
            assert all(value > 0 for value in row.values() if isinstance(value, float)), row


@pytest.mark.soak  # `tests/store/test_shared_pages.py` holds the cause, by counts
@pytest.mark.timeout(1800)
def test_an_archive_of_a_million_messages_costs_the_queue_manager_little_memory(
    tmp_path: Path,
) -> None:
    """A checkpoint that copied the state, and buffers that lay beside it, took 148 MiB."""
    assert spark.grown_mib(archived(tmp_path, Dose(200, 1_000_000, 0, 0))) <= spark.GROWTH_MIB
