"""The programs of examples/ and the code of docs/spark.md work as they stand there."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
Example = Callable[..., None]


@pytest.fixture
def run_example(
    spark: SparkSession, office: SparkOffice, monkeypatch: pytest.MonkeyPatch
) -> Example:
    """Runs a program of examples/ against the office; its `session` is the one that is there."""

    def run(name: str, *arguments: str) -> None:
        access = ["--url", office.url, "--token-file", str(office.token_file)]
        monkeypatch.setattr(sys, "argv", [name, *arguments, *access])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def test_a_table_is_sent_read_and_routed(
    run_example: Example,
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders, large, small = queue(), queue(), queue()
    run_example("send_table.py", "--orders", "70", path_of(orders).replace("\\", "/"))
    sent = [json.loads(body) for body in office.bodies(orders)]
    assert sorted(order["order"] for order in sent) == list(range(70))

    run_example("orders_by_customer.py", path_of(orders), str(tmp_path / "table"))
    said = capsys.readouterr().out
    amounts: Counter[str] = Counter()
    for order in sent:
        amounts[order["customer"]] += order["amount"]
    for customer, amount in amounts.items():
        assert re.search(rf"\|{customer} *\|10 *\|{amount} *\|", said), said
    assert office.count(orders) == 70

    routing = (path_of(orders), path_of(large), path_of(small))
    run_example("route_orders.py", *routing, "--checkpoint", str(tmp_path / "at"))
    assert office.count(orders) == 0
    amounts_of = [[json.loads(body)["amount"] for body in office.bodies(q)] for q in (large, small)]
    assert min(amounts_of[0]) >= 250 > max(amounts_of[1])
    assert len(amounts_of[0]) + len(amounts_of[1]) == 70


def test_every_example_is_in_the_list() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w+\.py)\)", page)) == {
        path.name for path in EXAMPLES.glob("*.py")
    }


def test_the_python_of_the_page_works_as_printed(
    spark: SparkSession, office: SparkOffice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    office.create("orders", "urgent", "error")
    orders = office.qm.queue(path_of("orders"))
    for priority in range(8):
        orders.send(
            f"order {priority}".encode(), priority=priority, label="an order", recoverable=True
        )
    pages = [ROOT / "docs" / name for name in ("spark.md", "spark-options.md", "pipelines.md")]
    page = "".join(one.read_text(encoding="utf-8") for one in pages)
    names = {
        "url": office.url,
        "token_file": str(office.token_file),
        "checkpoint": str(tmp_path / "checkpoint"),
        "table": str(tmp_path / "table"),
    }
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        for name, value in names.items():  # the reader's own address and folders
            if isinstance(value, str):
                code = re.sub(rf'^{name} = ".*?"', f"{name} = {value!r}", code, flags=re.MULTILINE)
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert "|       7|    1|" in capsys.readouterr().out
    assert sorted(office.bodies("urgent")) == [b"order 6", b"order 7"]
    assert spark.read.parquet(names["table"]).where("text LIKE 'order %'").count() == 8
    assert office.count("orders") == 0
