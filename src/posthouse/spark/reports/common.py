"""The reports of `deadletters`, `latency` and `traffic` as pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from posthouse.spark.reports.charts import bars, lines
from posthouse.spark.reports.dead_letters import DeadLetters
from posthouse.spark.reports.latencies import LEGS, Latencies
from posthouse.spark.reports.page import Page, shown
from posthouse.spark.reports.traffic import Traffic
from posthouse.spark.rows.values import Values

SERIES_MAX: Final = 6
ROUTES_MAX: Final = 5
_SEEN: Final = ("messages", "body_bytes", "first_seen", "last_seen")
_TITLES: Final = {
    "to_arrival": "from send to arrival",
    "to_receipt": "from arrival to receipt",
    "in_all": "from send to receipt",
}


def deadletters_page(found: DeadLetters) -> Page:
    """What became of messages that could not be delivered."""
    tables = found.tables
    page = Page("Dead letters", f"{found.messages:,} messages; times are UTC.")
    page.section("By reason")
    page.chart(bars((row["reason"], row["messages"]) for row in tables["by_reason"]))
    _table(page, ("reason", "meaning", *_SEEN, "remedy"), tables["by_reason"])
    page.section("By hour")
    page.chart(_hours(tables["by_hour"]))
    page.section("Clusters of alike bodies", "Send one again: pipeline deadletters --resend NAME")
    columns = ("cluster", "reason", "destination", "shape", "label", "sample", *_SEEN)
    _table(page, columns, tables["clusters"])
    _contents(page, tables)
    page.section("By queue")
    page.chart(bars((row["destination"] or "", row["messages"]) for row in tables["by_queue"]))
    _table(page, ("destination", *_SEEN), tables["by_queue"])
    page.section("By sender")
    _table(page, ("sender", "source_queue_manager", *_SEEN), tables["by_sender"])
    return page


def traffic_page(found: Traffic) -> Page:
    """What goes through queues."""
    tables = found.tables
    page = Page("Traffic", f"{found.messages:,} messages; hours of sending, UTC.")
    page.section("By queue")
    page.chart(bars((row["queue"] or "", row["messages"]) for row in tables["by_queue"]))
    _table(page, ("queue", *_SEEN), tables["by_queue"])
    page.section("By format")
    page.chart(bars((row["format"], row["messages"]) for row in tables["by_format"]))
    _table(page, ("format", *_SEEN), tables["by_format"])
    _contents(page, tables)
    page.section("By hour")
    page.chart(_hours(tables["by_hour"], "format"))
    return page


def _contents(page: Page, tables: Mapping[str, list[Values]]) -> None:
    """By message type and exception, and what could not be read."""
    page.section("By message type and exception")
    _table(page, ("message_type", "exception_type", "format", *_SEEN), tables["by_type"])
    unread = tables["unreadable"]
    count = sum(row["messages"] for row in unread)
    note = f"{count:,} messages break the format that they claim, or go beyond a limit."
    page.section("Not readable", note if unread else "All messages could be read.")
    if unread:
        _table(page, ("format", "why", *_SEEN), unread)


def _hours(rows: Sequence[Values], key: str = "reason") -> str:
    """Messages of each hour, a line for each of the most frequent reasons, or another key."""
    labels = sorted({shown(row["hour"]) for row in rows})
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[key]] = totals.get(row[key], 0) + row["messages"]
    chosen = sorted(totals, key=lambda name: -totals[name])[:SERIES_MAX]
    counts = {(row[key], shown(row["hour"])): row["messages"] for row in rows}
    series = {name: [float(counts.get((name, label), 0)) for label in labels] for name in chosen}
    return lines(labels, series)


def latency_page(found: Latencies) -> Page:
    """How long messages took."""
    routes = found.tables["by_route"]
    page = Page("Latency", f"{found.messages:,} messages; seconds; hours of sending, UTC.")
    for leg in LEGS:
        page.section(_TITLES[leg].capitalize())
        page.chart(bars(_spans(routes, leg)))
        columns = ("source", "destination", "messages", *_figures(leg))
        _table(page, columns, [row for row in routes if row[f"{leg}_p50"] is not None])
    page.section("By message type and exception", "As headers of message buses name them.")
    columns = ("message_type", "exception_type", "messages", *_figures("in_all"))
    _table(page, columns, found.tables["by_type"])
    for route in routes[:ROUTES_MAX]:
        _route(page, route, found.tables["by_hour"])
    skewed = sum(row["skewed"] for row in routes)
    if skewed:
        page.note(f"{skewed:,} messages arrived before they were sent: compare the clocks.")
    return page


def _spans(routes: Iterable[Values], leg: str) -> list[tuple[str, float]]:
    spans = [(row, row[f"{leg}_p90"]) for row in routes if row[f"{leg}_p90"] is not None]
    return [(f"{route_name(row)} (90 %)", value) for row, value in spans]


def _route(page: Page, route: Values, by_hour: Iterable[Values]) -> None:
    hours = sorted(
        (row for row in by_hour if _key(row) == _key(route)), key=lambda row: shown(row["hour"])
    )
    leg = next((leg for leg in ("in_all", "to_arrival") if route[f"{leg}_p50"] is not None), None)
    if leg is None:
        return
    page.section(f"By hour: {route_name(route)}", f"{_TITLES[leg]}, percentiles")
    series: dict[str, list[float | None]] = {
        name.removeprefix(f"{leg}_"): [row[name] for row in hours] for name in _figures(leg)
    }
    page.chart(lines([shown(row["hour"]) for row in hours], series))


def route_name(row: Values) -> str:
    """A route in one text."""
    return f"{row['destination'] or '?'} from {(row['source'] or '?')[:8]}"


def _key(row: Values) -> tuple[Any, Any]:
    return row["source"], row["destination"]


def _figures(leg: str) -> tuple[str, ...]:
    return f"{leg}_p50", f"{leg}_p90", f"{leg}_p99", f"{leg}_max"


def _table(page: Page, columns: Sequence[str], rows: Iterable[Values]) -> None:
    titles = [column.replace("_", " ") for column in columns]
    page.table(titles, [[row[column] for column in columns] for row in rows])
