"""The graph of queues: who feeds whom, by senders and correlation, as a page that runs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import main
from posthouse.spark.reports.flow import Edge, edges_of, flow_page, graph
from tests.process.spark_office import SparkOffice, path_of

GUID = "00000000-0000-0000-0000-000000000001"


def row(queue: str, number: int, correlation: str = "", **more: Any) -> dict[str, Any]:
    usual = {"source_queue_manager": GUID, "destination": "DIRECT=OS:x", "body_size": 10}
    return {"queue": queue, "id": f"{GUID}\\{number}", "correlation_id": correlation} | usual | more


def packed(number: int) -> str:
    from posthouse.spark.watching.sampling import packed_id

    return packed_id(f"{GUID}\\{number}")


def test_queues_feed_each_other_by_correlation() -> None:
    rows = [
        row("A\\private$\\orders;journal", 1),
        row("A\\private$\\orders", 2),
        row("A\\private$\\bills", 3, packed(1)),
        row("A\\private$\\bills", 4, packed(99)),
        row("A\\system$;deadletter", 5, destination="DIRECT=OS:b"),
    ]
    computer = f"computer {GUID}"
    assert edges_of(rows) == [
        Edge(computer, "A\\private$\\bills", 2, 20),
        Edge(computer, "A\\private$\\orders", 2, 20),
        Edge("A\\private$\\orders", "A\\private$\\bills", 1, 10),
        Edge("DIRECT=OS:b", ";deadletter", 1, 10),
    ]


def test_a_hostile_name_is_text() -> None:
    page = flow_page([Edge("<script>alert(1)</script>", 'b"><img src=x>', 5, 1)]).html()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script" in page


def test_a_large_graph_is_cut() -> None:
    edges = [Edge(f"computer {n}", f"queue {n}", 1, 1) for n in range(500)]
    assert graph(edges).count("<rect") == 60
    assert graph([]).startswith("<svg")


def test_the_command_writes_a_page(
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = queue()
    office.send(name, [b"x", b"y"])
    access = ["--url", office.url, "--token-file", str(office.token_file)]
    words = ["pipeline", "flow", "--page", str(tmp_path / "flow.html")]
    # Of all queues, which other tests share, the page would have the first 50 rows only.
    assert main.run([*words, "--queue", path_of(name), *access, "--json"]) == 0
    edges = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (own,) = [one for one in edges if one["target"].endswith(f"\\{name}")]
    assert (own["messages"], own["bytes"]) == (2, 2)
    assert path_of(name)[2:] in (tmp_path / "flow.html").read_text(encoding="utf-8")
