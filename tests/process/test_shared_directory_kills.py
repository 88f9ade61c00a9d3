"""`kill -9` of those who share a directory file, while they change it."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from posthouse.directory.document import objects_of
from posthouse.directory.document_text import parse_document
from posthouse.directory.objects import Queue, Site
from posthouse.model.errors import QueueError
from tests.conftest import Dose
from tests.process.offices import Office, wait_until
from tests.process.warm import Loaded

DIRECTORY = """
[directory]
file = "{path}"
refresh_s = 1
addresses = ["127.0.0.1:@PORT@"]
"""
QUEUES = 5  # of each, so that the file stays small
NAMES = ("ALPHA", "BETA", "GAMMA")


def sites(path: Path) -> set[str]:
    """What the file has; whatever version it is, it is a whole one."""
    found = objects_of(parse_document(path.read_text(), "the file"))
    return {one.name for one in found if isinstance(one, Site)}


def told(path: Path) -> tuple[set[str], set[str]]:
    """What has to be in the file, and what may be."""
    sure: set[str] = set()
    doubtful: set[str] = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        if line[0] == "+":
            sure.add(line[1:])
        elif line[0] == "?":
            sure.discard(line[1:])
            doubtful.add(line[1:])
        else:
            doubtful.discard(line[1:])
    return sure, doubtful


def test_the_file_is_whole_and_has_all_that_was_made(tmp_path: Path, dose: Dose) -> None:
    drawn = random.Random(9)
    path = tmp_path / "shared" / "directory.toml"
    path.parent.mkdir()
    path.touch()
    loaded = Loaded(tmp_path, "tests.process.directory_writer")
    made: list[Path] = []

    def start(name: str) -> int:
        made.append(tmp_path / f"told-{len(made)}")
        title = f"{name}-{len(made)}"
        return loaded.fork("tests.process.directory_writer", str(path), title, str(made[-1]))

    running = {name: start(name) for name in NAMES}
    wait_until(lambda: all(told(one)[0] for one in made), path.read_text)
    for _ in range(dose(10, 300)):
        name = drawn.choice(NAMES)
        time.sleep(drawn.random() * 0.05)
        loaded.kill(running[name])
        sites(path)
        running[name] = start(name)
    for pid in running.values():
        loaded.kill(pid)
    loaded.close()
    found = sites(path)
    for one in made:
        sure, doubtful = told(one)
        assert sure <= found
        number = one.name.partition("-")[2]
        ours = {name for name in found if name.split("-")[1] == str(int(number) + 1)}
        # One more may have been made before it could be told of.
        assert len(ours - sure - doubtful) <= 1
    left = {file.name for file in path.parent.iterdir()}
    assert left <= {path.name, f"{path.name}.lock", f".{path.name}.new"}


def test_queue_managers_are_killed_while_they_make_public_queues(
    tmp_path: Path, dose: Dose
) -> None:
    drawn = random.Random(5)
    path = tmp_path / "directory.toml"
    path.touch()
    made: dict[str, set[str]] = {name: set() for name in NAMES}
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

    with ExitStack() as running:
        more = DIRECTORY.format(path=path)
        offices = [Office(tmp_path / name, name, running, more) for name in NAMES]
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
