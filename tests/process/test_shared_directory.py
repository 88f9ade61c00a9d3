"""Real queue managers that share one directory file."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from posthouse.directory.document.document import objects_of
from posthouse.directory.document.text import parse_document
from posthouse.directory.objects import Queue
from posthouse.model.errors import NoDs, QueueError, QueueExists
from tests.conftest import Dose
from tests.process.offices import Office, wait_until

DIRECTORY = """
[directory]
file = "{path}"
refresh_s = 1
addresses = ["127.0.0.1:@PORT@"]
"""
QUEUES = 5  # of each, so that the file stays small


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("shared") / "directory.toml"
    found.touch()
    return found


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory, path: Path) -> Iterator[list[Office]]:
    more, folder = DIRECTORY.format(path=path), tmp_path_factory.mktemp("offices")
    with ExitStack() as running:
        yield [Office(folder / name, name, running, more) for name in ("ALPHA", "BETA", "GAMMA")]


def public_queues(office: Office) -> set[str]:
    return {queue.path for queue in office.qm.find_queues()}


def knows_orders(office: Office) -> bool:
    return "ALPHA\\orders" in public_queues(office)


def test_a_change_in_one_shows_in_the_others_and_outlives_the_file(
    offices: list[Office], path: Path
) -> None:
    alpha, beta, gamma = offices
    alpha.qm.create_queue("ALPHA\\orders", label="Orders")
    for office in (beta, gamma):
        wait_until(partial(knows_orders, office), path.read_text)
    with pytest.raises(QueueExists):
        alpha.qm.create_queue("ALPHA\\orders")
    queue = alpha.qm.queue("ALPHA\\orders")
    name = queue.properties().guid_name
    beta.qm.queue(name).send(b"over the directory")
    assert queue.receive(timeout=60).body == b"over the directory"

    good = path.read_text()
    path.write_text(good + "\n[[sites]]\nname = 1\n")
    wait_until(lambda: not beta.qm.status().directory.online, beta.qm.status)
    assert f"{path}, line" in beta.qm.status().directory.reason
    with pytest.raises(NoDs):
        beta.qm.create_queue("BETA\\more")
    beta.qm.queue(name).send(b"while it was broken")
    assert queue.receive(timeout=60).body == b"while it was broken"

    path.unlink()
    gamma.restart()
    wait_until(lambda: "does not exist" in gamma.qm.status().directory.reason, gamma.qm.status)
    path.write_text(good)
    for office in offices:
        wait_until(partial(is_online, office), office.qm.status)
    beta.qm.create_queue("BETA\\more")
    wait_until(lambda: public_queues(gamma) == {"ALPHA\\orders", "BETA\\more"}, path.read_text)
    alpha.qm.queue("ALPHA\\orders").delete()
    wait_until(lambda: public_queues(gamma) == {"BETA\\more"}, path.read_text)


def test_queue_managers_are_killed_while_they_make_public_queues(
    offices: list[Office], path: Path, dose: Dose
) -> None:
    drawn = random.Random(5)
    made: dict[str, set[str]] = {office.name: set() for office in offices}
    ending = threading.Event()

    def work(office: Office) -> None:
        ours, number = made[office.name], 0
        while not ending.is_set():
            number += 1
            time.sleep(0.02)  # the lock is for the others too
            with suppress(QueueError, OSError):
                office.qm.create_queue(f"{office.name}\\q{number}")
                ours.add(f"{office.name}\\q{number}")
                if len(ours) > QUEUES:
                    office.qm.queue(ours.pop()).delete()

    threads = [threading.Thread(target=work, args=(office,)) for office in offices]
    for thread in threads:
        thread.start()
    for _ in range(dose(3, 100)):
        time.sleep(drawn.random() * 0.5)
        drawn.choice(offices).restart()
    ending.set()
    for thread in threads:
        thread.join()
    for office in offices:
        wait_until(partial(is_online, office), office.qm.status)
    document = objects_of(parse_document(path.read_text(), "the file"))
    entered = {one.pathname for one in document if isinstance(one, Queue)}
    for office in offices:
        ours = {one for one in entered if one.startswith(f"{office.name}\\")}
        assert made[office.name]
        assert made[office.name] <= ours
        # What was entered and not heard of is made by its queue manager; no others stay.
        wait_until(partial(has_public, office, ours), partial(public, office))


def is_online(office: Office) -> bool:
    return office.qm.status().directory.online


def has_public(office: Office, paths: set[str]) -> bool:
    return public(office) == paths


def public(office: Office) -> set[str]:
    """The public queues that a queue manager has itself."""
    return {
        queue.path
        for queue in office.qm.queues()
        if queue.path.startswith(f"{office.name}\\") and "$" not in queue.path
    }
