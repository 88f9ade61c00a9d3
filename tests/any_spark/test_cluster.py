"""Two workers that do not see the driver's files: a stand-in for YARN and Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.any_spark.programs import environment, facts
from tests.process.object_store import BUCKET, bucket
from tests.process.spark_cluster import Cluster
from tests.process.spark_office import SparkOffice

pytestmark = pytest.mark.timeout(1200)  # several Javas start, beside whatever else runs

MESSAGES = 600


def test_workers_without_a_shared_disk(office: SparkOffice, tmp_path: Path) -> None:
    office.create("far", "near", "answers")
    office.send("near", [b"1", b"2"])
    office.send("far", [b"message %d" % number for number in range(MESSAGES)])
    (own := tmp_path / "driver").mkdir()
    token = own / "token"  # no worker sees it
    token.write_text(office.token_file.read_text("ascii"), "ascii")
    with Cluster(tmp_path, hidden=own) as cluster, bucket() as store:
        cluster.start()
        options = store.options | {"url": f"s3://{BUCKET}/archives/far"}
        env = environment(
            POSTHOUSE_TOKEN=token.read_text("ascii"),
            **{f"STORE_{name.upper()}": text for name, text in options.items()},
        )
        words = (office.url, str(token), str(own), cluster.master)
        found = facts(["-m", "tests.any_spark.far_workers", *words], env)
    assert found["workers"] == 2
    assert found["seen_by_workers"] == [False]
    assert found["read"] == MESSAGES
    assert "has to be there on every machine that runs tasks" in found["token_path"]
    assert sorted(office.bodies("answers")) == sorted(b"answer %d" % n for n in range(20))
    assert "has to be a folder that the driver and all executors share" in found["local_lake"]
    assert office.bodies("near") == [b"1", b"2"]  # a refused archive has received nothing
    assert found["archived"] == found["in_lake"] == MESSAGES
    assert office.bodies("far") == []
