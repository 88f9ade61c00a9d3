"""Real queue managers that share one directory file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.model.errors import NoDs, QueueExists
from tests.process.offices import Office, wait_until

DIRECTORY = """
[directory]
file = "{path}"
refresh_s = 1
addresses = ["127.0.0.1:@PORT@"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "shared" / "directory.toml"
    found.parent.mkdir()
    found.touch()
    return found


@pytest.fixture
def offices(tmp_path: Path, path: Path) -> Iterator[list[Office]]:
    more = DIRECTORY.format(path=path)
    with ExitStack() as running:
        yield [Office(tmp_path / name, name, running, more) for name in ("ALPHA", "BETA", "GAMMA")]


def public_queues(office: Office) -> set[str]:
    return {queue.path for queue in office.qm.find_queues()}


def test_a_change_in_one_shows_in_the_others_and_outlives_the_file(
    offices: list[Office], path: Path
) -> None:
    alpha, beta, gamma = offices
    alpha.qm.create_queue("ALPHA\\orders", label="Orders")
    for office in (beta, gamma):
        wait_until(lambda one=office: "ALPHA\\orders" in public_queues(one), path.read_text)
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
    wait_until(lambda: "is not there" in gamma.qm.status().directory.reason, gamma.qm.status)
    path.write_text(good)
    for office in offices:
        wait_until(lambda one=office: one.qm.status().directory.online, office.qm.status)
    beta.qm.create_queue("BETA\\more")
    wait_until(lambda: public_queues(gamma) == {"ALPHA\\orders", "BETA\\more"}, path.read_text)
    alpha.qm.queue("ALPHA\\orders").delete()
    wait_until(lambda: public_queues(gamma) == {"BETA\\more"}, path.read_text)
