"""The document's own steps, by its headings, on an embedded queue manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse.qms import Door
from posthouse.qms.sessions import SessionDoor
from tests.qms import walk


@pytest.fixture(scope="module")
def enter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[walk.Enter]:
    """Stations of one queue manager; they stay until the last heading."""
    home: Path = tmp_path_factory.mktemp("walk") / "home"
    with posthouse.open(home, name="ALPHA") as manager:

        def open_station(name: str, type: int) -> Door:
            if name == "SUPERVISOR":
                return SessionDoor(manager)
            return SessionDoor(manager, name, type, walk.PASSWORD)

        yield open_station


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
def test_creating_queues_in_the_bindery(enter: walk.Enter) -> None:
    walk.creating_queues_in_the_bindery(enter)


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
def test_submitting_jobs_to_queues(enter: walk.Enter) -> None:
    walk.submitting_jobs_to_queues(enter)


@pytest.mark.spec(
    "QMS Monitoring/1", "QMS Monitoring/2", "QMS Monitoring/3", "QMS Queue Properties/2"
)
def test_monitoring_and_controlling_the_status_of_jobs_and_queues(enter: walk.Enter) -> None:
    walk.monitoring_and_controlling_the_status_of_jobs_and_queues(enter)


@pytest.mark.spec(
    "QMS Creating Queue Servers/1",
    "QMS Creating Queue Servers/2",
    "QMS Creating Queue Servers/3",
    "QMS Creating Queue Servers/4",
    "QMS Creating Queue Servers/7",
    "QMS Creating Queue Servers/8",
)
def test_creating_queue_servers_in_the_bindery(enter: walk.Enter) -> None:
    walk.creating_queue_servers_in_the_bindery(enter)


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
def test_servicing_entries_in_the_queue(enter: walk.Enter) -> None:
    walk.servicing_entries_in_the_queue(enter)
