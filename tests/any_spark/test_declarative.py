"""The declared pipeline of the examples, run twice by `spark-pipelines`."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.any_spark.programs import ROOT, environment, ran
from tests.process.spark_office import SparkOffice, path_of

pytestmark = pytest.mark.timeout(1200)  # Java starts twice, beside whatever else runs

EXAMPLE = ROOT / "examples" / "declarative"


def test_the_declared_pipeline_goes_on_with_what_is_new(
    office: SparkOffice, tmp_path: Path
) -> None:
    office.create("declared", "copies")
    folder = shutil.copytree(EXAMPLE, tmp_path / "declarative")
    described = folder / "spark-pipeline.yml"
    text = described.read_text("utf-8")
    (line,) = re.findall(r"^#   (spark-pipelines run .*)$", text, re.MULTILINE)
    assert "file:///tmp/orders-pipeline" in text
    described.write_text(text.replace("/tmp/orders-pipeline", str(tmp_path / "storage")))
    env = environment(
        "connect",
        POSTHOUSE_URL=office.url,
        POSTHOUSE_TOKEN_FILE=str(office.token_file),
        POSTHOUSE_QUEUE=path_of("declared"),
        POSTHOUSE_COPIES=path_of("copies"),
    )
    program = str(Path(sys.executable).with_name("spark-pipelines"))
    sent: list[bytes] = []
    for amount in (100, 200):
        order = {"order": amount, "customer": "a", "amount": amount}
        sent.append(json.dumps(order).encode())
        office.send("declared", sent[-1:])
        ran(line.split()[1:], env, program=program, folder=folder)
        assert office.bodies("copies") == sent
