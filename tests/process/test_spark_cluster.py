"""A standalone cluster from the package of PyPI; streams on it are in the other files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process import shop
from tests.process.shop import Names
from tests.process.spark_cluster import PATIENCE_S, Cluster
from tests.process.spark_driver import lake_bodies
from tests.process.spark_office import SparkOffice, path_of

MESSAGES = 2000
ROOT = Path(__file__).parents[2]
LAUNCHED = "Launching executor"


def run(*words: str) -> str:
    """A program as somebody starts it; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.soak  # `test_spark_kills.py` archives, `test_spark_attempts.py` sends on a cluster
@pytest.mark.timeout(1800)
def test_a_cluster_sends_a_table_and_archives_queues(
    tmp_path: Path, spark_cluster: Cluster
) -> None:
    before = spark_cluster.said("master").count(LAUNCHED)
    with ExitStack() as running:
        office = SparkOffice(tmp_path / "office", running)
        office.create("orders", "letters")
        access = ("--url", office.url, "--token-file", str(office.token_file))
        access = (*access, "--master", spark_cluster.master)
        table = ("examples/send_table.py", "--orders", str(MESSAGES), path_of("orders"))
        run(*table, *access)
        orders, letters = office.bodies("orders"), Names("letter").take(MESSAGES)
        assert sorted(json.loads(body)["order"] for body in orders) == list(range(MESSAGES))
        office.send("letters", letters)

        lake = str(tmp_path / "lake")
        queues = (path_of("orders"), path_of("letters"))
        command = ("-m", "posthouse.cli.main", "pipeline", "archive", *queues, "--lake", lake)
        run(*command, "--consume", *access)
        shop.each_once(lake_bodies(lake), {*orders, *letters}, set())
        assert office.count("orders") == office.count("letters") == 0
        shop.check_balance(office.qm, locked=0)
    launched = spark_cluster.said("master").count(LAUNCHED) - before
    assert launched >= 4, "each program runs on two workers"
