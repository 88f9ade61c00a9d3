"""`flow`: which computer feeds which queue, and which queue feeds which, as a graph on a page.

A queue feeds another one where a message of the other has the identifier of one of its own as its
correlation identifier; it feeds the dead letters where these were to go to it. What was received is
known from journals. It needs no Spark, and consumes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue
from posthouse.spark.reports.page import Page
from posthouse.spark.reports.page_text import escaped
from posthouse.spark.watching.sampling import packed_id

MESSAGES_MAX: Final = 200_000
"""The newest messages of each queue that are looked at."""
NODES_MAX: Final = 60
JOURNAL: Final = ";journal"
DEAD: Final = (";deadletter", ";deadxact")
COLUMNS: Final = (
    "queue",
    "id",
    "correlation_id",
    "source_queue_manager",
    "destination",
    "body_size",
)
_WIDTH, _BOX, _ROW, _TOP = 900, 230, 34, 40


class Edge(NamedTuple):
    """Messages from one node to another."""

    source: str
    target: str
    messages: int
    bytes: int


def read_messages(http: BulkHttp, queues: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Where the newest messages of some queues come from."""
    for queue in queues:
        (plan,) = arrow_read.plan(http, [PlannedQueue(queue)]).queues
        after = max(plan.after, plan.latest - MESSAGES_MAX)
        for batch in arrow_read.read(http, plan.queue, after, plan.latest, COLUMNS):
            yield from batch.to_pylist()


def edges_of(rows: Iterable[Mapping[str, Any]]) -> list[Edge]:
    """The edges that messages show, the busiest first."""
    messages, size = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    home: dict[str, str] = {}
    answers: list[tuple[str, str, int]] = []
    for row in rows:
        queue = node_of(str(row["queue"]))
        source = row["destination"] if queue in DEAD else f"computer {row['source_queue_manager']}"
        edge = (str(source or "?"), queue)
        messages[edge] += 1
        size[edge] += int(row["body_size"] or 0)
        if queue not in DEAD:
            home[packed_id(str(row["id"]))] = queue
            answers.append((str(row["correlation_id"] or "").lower(), queue, row["body_size"] or 0))
    for request, queue, count in answers:
        fed = home.get(request)
        if fed is not None and fed != queue:
            messages[fed, queue] += 1
            size[fed, queue] += count
    found = [Edge(*edge, count, size[edge]) for edge, count in messages.items()]
    return sorted(found, key=lambda edge: (-edge.messages, edge.source, edge.target))


def node_of(queue: str) -> str:
    """The node of a queue: its journal belongs to it; all dead letters of a kind are one."""
    lowered = queue.lower()
    for end in DEAD:
        if lowered.endswith(end):
            return end
    return queue[: -len(JOURNAL)] if lowered.endswith(JOURNAL) else queue


def flow_page(edges: list[Edge]) -> Page:
    """The graph, and its edges as a table."""
    note = "From the messages in queues, journals, dead letters."
    page = Page("Which queue feeds which", note, rest="`posthouse pipeline flow --json` prints all")
    page.chart(graph(edges))
    page.section("Edges")
    rows = [(named(one.source), named(one.target), one.messages, one.bytes) for one in edges]
    page.table(("from", "to", "messages", "bytes of bodies"), rows)
    return page


def named(node: str) -> str:
    """A node for people."""
    return {DEAD[0]: "dead letters", DEAD[1]: "transactional dead letters"}.get(node, node)


def graph(edges: list[Edge]) -> str:
    """Computers at the left, queues in the middle, dead letters at the right."""
    nodes = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
    places = _places(list(nodes)[:NODES_MAX])
    height = _TOP + _ROW * max((row for _, row in places.values()), default=0) + _ROW
    most = max((edge.messages for edge in edges), default=1)
    lines = [_line(edge, places, most) for edge in edges]
    boxes = [_box(node, place) for node, place in places.items()]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="flow of messages">'
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _places(nodes: list[str]) -> dict[str, tuple[int, int]]:
    """The column and the row of each node."""
    rows = defaultdict[int, int](int)
    found = {}
    for node in nodes:
        column = 2 if node in DEAD else 0 if node.startswith("computer ") else 1
        found[node] = column, rows[column]
        rows[column] += 1
    return found


def _at(place: tuple[int, int]) -> tuple[float, float]:
    column, row = place
    return column * (_WIDTH - _BOX) / 2, _TOP / 2 + row * _ROW


def _line(edge: Edge, places: Mapping[str, tuple[int, int]], most: int) -> str:
    if edge.source not in places or edge.target not in places:
        return ""
    (x, y), (other_x, other_y) = _at(places[edge.source]), _at(places[edge.target])
    is_beside = places[edge.source][0] == places[edge.target][0]
    begin, end = x + _BOX, other_x + (_BOX if is_beside else 0)
    bend = 40 if is_beside else (end - begin) / 2
    title = f"{named(edge.source)} to {named(edge.target)}: {edge.messages:,} messages"
    middle, other_middle = y + 12, other_y + 12
    path = f"M{begin:.0f} {middle:.0f}C{begin + bend:.0f} {middle:.0f} "
    back = end + bend if is_beside else end - bend
    path += f"{back:.0f} {other_middle:.0f} {end:.0f} {other_middle:.0f}"
    width = 1 + 5 * edge.messages / most
    return (
        f'<path d="{path}" fill="none" stroke="#7a93ad" stroke-width="{width:.1f}">'
        f"<title>{escaped(title)}</title></path>"
    )


def _box(node: str, place: tuple[int, int]) -> str:
    x, y = _at(place)
    text = named(node)
    short = text if len(text) <= 34 else f"…{text[-33:]}"
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX}" height="24" rx="4" fill="#eef2f6" '
        f'stroke="#9fb0c2"/><text x="{x + 6:.0f}" y="{y + 16:.0f}" font-size="11">'
        f"{escaped(short)}<title>{escaped(text)}</title></text>"
    )
