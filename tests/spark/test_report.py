"""Reports: complete in themselves, with texts of strangers shown and never obeyed."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.spark.reports.charts import bars, figure, lines
from posthouse.spark.reports.common import deadletters_page, latency_page, traffic_page
from posthouse.spark.reports.dead_letters import DeadLetters
from posthouse.spark.reports.latencies import LEGS, Latencies
from posthouse.spark.reports.page import ROWS_MAX, Page
from posthouse.spark.reports.page_text import escaped, visible
from posthouse.spark.reports.traffic import Traffic

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</svg><script>alert(1)</script>",
    "</title></style><iframe src=//evil>",
    "]]><![CDATA[<b>",
    "&lt;b&gt;&#60;script&#62;",
    "javascript:alert(1)",
    "\u202egnp.exe\u2066",
    "\x00\x1b[2J\x7f",
    "\ud800",
    "a\u2028b",
]
TAGS = """
html head meta title style body h1 h2 p table thead tbody tr th td svg text rect line circle
"""


class Strict(HTMLParser):
    """Fails on a tag or an attribute that no page of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS.split(), tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name not in ("href", "src", "xlink:href", "style", "action"), name
            assert "javascript" not in (value or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> str:
    parser = Strict()
    parser.feed(page)
    parser.close()
    return "\n".join(parser.texts)


def hostile_page(text: str) -> str:
    page = Page(text, text)
    page.section(text, text)
    page.table([text], [[text], [None], [7]])
    page.chart(bars([(text, 3.0)]))
    page.chart(lines([text, "b"], {text: [1.0, None]}))
    return page.html()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    assert visible(text) in read(hostile_page(text))


@given(st.text(max_size=60))
def test_any_text_is_only_text(text: str) -> None:
    page = hostile_page(text)
    read(page)
    page.encode("utf-8")


def test_nothing_comes_from_elsewhere() -> None:
    page = hostile_page("x")
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_what_turns_text_around_is_written_out() -> None:
    assert visible("a\u202eb\nc") == "a\\u202eb\\nc"
    assert visible("größe 😀") == "größe 😀"
    assert escaped("x" * 600).endswith("…")


def test_a_long_table_says_that_it_goes_on() -> None:
    page = Page("t")
    page.table(["n"], [[number] for number in range(ROWS_MAX + 5)])
    assert f"The first {ROWS_MAX} of {ROWS_MAX + 5}" in page.html()


def test_charts_stand_empty_and_odd_figures() -> None:
    assert "svg" in bars([])
    assert "svg" in bars([("a", 0), ("b", 0)])
    assert "svg" in lines([], {})
    assert "circle" in lines(["a"], {"s": [1.0]})
    assert (figure(1234), figure(0.25)) == ("1,234", "0.2")


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "report.html"
    Page("one").write(path)
    Page("two\ud800").write(path)
    assert "two" in path.read_text(encoding="utf-8")
    assert [one.name for one in path.parent.iterdir()] == ["report.html"]


class Found:
    """Tables as a pipeline has them."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        self.tables = tables
        self.messages = 3


def counted(**keys: Any) -> dict[str, Any]:
    return {"messages": 3, "body_bytes": 30, "first_seen": NOON, "last_seen": NOON, **keys}


@pytest.mark.parametrize("text", HOSTILE)
def test_dead_letters_are_shown_whatever_they_hold(text: str) -> None:
    words = {"reason": text, "meaning": text, "remedy": text}
    cluster = {"cluster": "0a1b2c3d", "destination": text, "shape": text, "label": text}
    tables = {
        "by_reason": [counted(**words)],
        "by_sender": [counted(sender=text, source_queue_manager=text)],
        "by_queue": [counted(destination=text)],
        "by_hour": [counted(hour=NOON, reason=text), counted(hour=None, reason=text)],
        "clusters": [counted(**words, **cluster, sample=text)],
        "by_type": [counted(message_type=text, exception_type=None, format="xml")],
        "unreadable": [counted(format="xml", why=text)],
    }
    page = deadletters_page(cast(DeadLetters, Found(tables))).html()
    assert "0a1b2c3d" in read(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_latencies_are_shown_whatever_they_hold(text: str) -> None:
    spans = {f"{leg}_{name}": 1.5 for leg in LEGS for name in ("p50", "p90", "p99", "max")}
    route = {"source": text, "destination": text, "messages": 3, "skewed": 1, **spans}
    empty = {**route, **dict.fromkeys(spans), "destination": "nothing known"}
    hours = [{**route, "hour": NOON}, {**empty, "hour": None}]
    types = [{**route, "message_type": text, "exception_type": text}]
    tables = {"by_route": [route, empty], "by_hour": hours, "by_type": types}
    page = latency_page(cast(Latencies, Found(tables))).html()
    assert "compare the clocks" in read(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_traffic_is_shown_whatever_it_holds(text: str) -> None:
    tables = {
        "by_queue": [counted(queue=text)],
        "by_format": [counted(format="xml")],
        "by_type": [counted(message_type=text, exception_type=text, format="xml")],
        "unreadable": [counted(format="nrbf", why=text)],
        "by_hour": [counted(hour=NOON, format="xml")],
    }
    page = traffic_page(cast(Traffic, Found(tables))).html()
    assert "3 messages break the format that they claim" in read(page)


def test_reports_of_nothing_are_pages_too() -> None:
    names = (
        *("by_reason", "by_sender", "by_queue", "by_hour", "clusters", "by_route"),
        *("by_type", "by_format", "unreadable"),
    )
    nothing = Found({name: [] for name in names})
    assert read(deadletters_page(cast(DeadLetters, nothing)).html())
    assert read(latency_page(cast(Latencies, nothing)).html())
    assert "All messages could be read." in read(traffic_page(cast(Traffic, nothing)).html())
