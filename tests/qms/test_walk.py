"""The document's own steps, by its headings, on an embedded queue manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse.qms import Door
from posthouse.qms.sessions import SessionDoor
from tests.qms import walk

Heading = Callable[[walk.Enter], None]
Walk = Callable[[Heading], None]
HEADINGS: tuple[Heading, ...] = (
    walk.creating_queues_in_the_bindery,
    walk.submitting_jobs_to_queues,
    walk.monitoring_and_controlling_the_status_of_jobs_and_queues,
    walk.creating_queue_servers_in_the_bindery,
    walk.servicing_entries_in_the_queue,
)


@pytest.fixture
def walk_to(tmp_path: Path) -> Iterator[Walk]:
    """All headings up to one, on a queue manager of their own; stations stay until the last."""
    with posthouse.open(tmp_path / "home", name="ALPHA") as manager:

        def open_station(name: str, type: int) -> Door:
            if name == "SUPERVISOR":
                return SessionDoor(manager)
            return SessionDoor(manager, name, type, walk.PASSWORD)

        def walk_through(last: Heading) -> None:
            for heading in HEADINGS[: HEADINGS.index(last) + 1]:
                heading(open_station)

        yield walk_through


@pytest.mark.spec(
    "QMS Creating Queues/1",
    "QMS Creating Queues/2",
    "QMS Creating Queues/3",
    "QMS Creating Queues/4",
    "QMS Creating Queues/8",
    "QMS Creating Queues/9",
    "QMS Creating Queues/10",
    "QMS Queue Properties/3",
)
def test_creating_queues_in_the_bindery(walk_to: Walk) -> None:
    walk_to(walk.creating_queues_in_the_bindery)


@pytest.mark.spec(
    "QMS Submitting/1",
    "QMS Submitting/2",
    "QMS Submitting/3",
    "QMS Submitting/4",
    "QMS Submitting/5",
    "QMS Table 27/10",
    "QMS Why Use QMS/1",
    "QMS Table 25/4",
)
def test_submitting_jobs_to_queues(walk_to: Walk) -> None:
    walk_to(walk.submitting_jobs_to_queues)


@pytest.mark.spec(
    "QMS Monitoring/1", "QMS Monitoring/2", "QMS Monitoring/3", "QMS Queue Properties/2"
)
def test_monitoring_and_controlling_the_status_of_jobs_and_queues(walk_to: Walk) -> None:
    walk_to(walk.monitoring_and_controlling_the_status_of_jobs_and_queues)


@pytest.mark.spec(
    "QMS Creating Queue Servers/1",
    "QMS Creating Queue Servers/2",
    "QMS Creating Queue Servers/3",
    "QMS Creating Queue Servers/4",
    "QMS Creating Queue Servers/7",
    "QMS Creating Queue Servers/8",
)
def test_creating_queue_servers_in_the_bindery(walk_to: Walk) -> None:
    walk_to(walk.creating_queue_servers_in_the_bindery)


@pytest.mark.spec(
    "QMS Monitoring/4",
    "QMS Servicing/1",
    "QMS Servicing/2",
    "QMS Servicing/3",
    "QMS Servicing/4",
    "QMS Servicing/5",
    "QMS Servicing/6",
    "QMS Servicing/7",
    "QMS Servicing/9",
    "QMS Servicing/10",
    "QMS Servicing/11",
    "QMS Servicing/12",
    "QMS Servicing/13",
)
def test_servicing_entries_in_the_queue(walk_to: Walk) -> None:
    walk_to(walk.servicing_entries_in_the_queue)
