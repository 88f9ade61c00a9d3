"""The benchmark of Spark runs, says all it promises, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import spark
from benchmarks.spark_decoded import STOCKS
from benchmarks.spark_drivers import SIZES

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
    assert len(tables["goals"]) == 6 + len(STOCKS)
    assert len(tables["decoded"]) == 2 * len(STOCKS)
    for name in ("rates", "latency", "senders", "decoded", "archive"):
        for row in tables[name]:
            assert all(value > 0 for value in row.values() if isinstance(value, float)), row
