"""The examples of own pipelines work as they stand there."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import Output

from posthouse.spark.pipeline_runner import run
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = [
    {"order": 1, "customer": "a", "amount": 100},
    {"order": 2, "customer": "a", "amount": 300},
    {"order": 3, "customer": "b", "amount": 20},
]


@pytest.fixture
def orders(office: SparkOffice, queue: Callable[..., str]) -> str:
    """A queue with orders, and one body that is none."""
    name = queue()
    office.send(name, [*(json.dumps(order).encode() for order in ORDERS), b"\xff\x00"])
    return name


def test_the_flow_of_orders_runs(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    orders: str,
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    large = queue()
    text = (EXAMPLES / "orders_flow.py").read_text(encoding="utf-8")
    for example, name in (("orders", orders), ("large", large)):
        assert f'"./private$/{example}"' in text
        text = text.replace(f'"./private$/{example}"', f'"./private$/{name}"')
    (tmp_path / "flow.py").write_text(text, encoding="utf-8")
    done = run(tmp_path / "flow.py", tmp_path, spark=spark, options=access)
    assert [(one.name, one.rows) for one in done] == [("by_customer", 2), ("large_orders", 1)]
    assert [json.loads(body) for body in office.bodies(large)] == [ORDERS[1]]


class Declared(GraphElementRegistry):
    """What files of a declared pipeline say, as spark-pipelines sees it."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}
        self.flows: dict[str, Flow] = {}

    def register_output(self, output: Output) -> None:
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        self.flows[flow.name] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise AssertionError(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError(sql_text)


@pytest.fixture
def declared(access: dict[str, str], orders: str, monkeypatch: pytest.MonkeyPatch) -> Declared:
    """What the files of the example declare, for the office."""
    folder = EXAMPLES / "declarative"
    described = (folder / "spark-pipeline.yml").read_text(encoding="utf-8")
    assert "include: transformations/**" in described
    monkeypatch.setenv("POSTHOUSE_URL", access["url"])
    monkeypatch.setenv("POSTHOUSE_TOKEN_FILE", access["tokenFile"])
    monkeypatch.setenv("POSTHOUSE_QUEUE", path_of(orders))
    found = Declared()
    with graph_element_registration_context(found):
        for file in sorted((folder / "transformations").glob("*.py")):
            runpy.run_path(str(file))
    return found


def test_the_declared_pipeline_says_what_it_makes(
    spark: SparkSession, declared: Declared, tmp_path: Path
) -> None:
    """Its queries run here in a session of ours; spark-pipelines runs them over Spark Connect."""
    assert declared.outputs.keys() == {"orders", "customers", "copies"}
    assert declared.flows.keys() == {"orders", "customers", "copied_orders"}
    stream = declared.flows["orders"].func()
    assert stream.isStreaming
    query = (
        stream.writeStream.format("memory")
        .queryName("orders")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = {tuple(row) for row in declared.flows["customers"].func().collect()}
    assert rows == {("a", 2, 400), ("b", 1, 20)}
    spark.catalog.dropTempView("orders")
