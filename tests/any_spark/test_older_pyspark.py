"""PySpark 4.2, in an environment of its own: a smoke test. `make soak` runs all tests with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.any_spark.programs import environment, facts
from tests.process.spark_office import SparkOffice

pytestmark = pytest.mark.timeout(1200)  # several Javas start, beside whatever else runs


def test_pyspark_4_2_does_the_main_things(office: SparkOffice, tmp_path: Path) -> None:
    office.create("orders", "sent", "copied")
    office.send("orders", [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'])
    words = (office.url, str(office.token_file), str(tmp_path), "local[2]")
    found = facts(["-m", "tests.any_spark.smoke", *words], environment("pyspark-4.2"))
    assert found == {
        "version": "4.2.1",
        "labels": [["", 3]],
        "archived": 3,
        "lake": 3,
        "sql": [3, '{\n  "n": 3\n}'],
        "variant": 3,
    }
    assert office.bodies("sent") == []
    assert sorted(office.bodies("copied")) == [b"%d" % number for number in range(7)]
