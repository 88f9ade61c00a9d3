"""Real queue managers on their own: one of a workgroup has no directory, and says so."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import posthouse
from posthouse.directory.embedded import record_key
from posthouse.directory.objects import Entry, encode_entry
from posthouse.engine.ledger.records import TABLE_DIRECTORY
from posthouse.model.errors import MalformedPacket, NoDs, QueueError
from posthouse.runtime.embedded import EmbeddedQueueManager
from tests.connector.foreign_site import LEDGER, ORDERS, document
from tests.directory.world import site
from tests.process.offices import Office, outgoing, wait_until


def error(alpha: posthouse.QueueManagerClient) -> str:
    """Why what waits since there was a directory cannot go."""
    (queue,) = outgoing(alpha)
    assert queue.outgoing is not None
    return str(queue.outgoing.last_error)


def test_there_is_no_directory_in_a_workgroup(tmp_path: Path) -> None:
    with ExitStack() as running:
        office = Office(tmp_path / "ALPHA", "ALPHA", running, "[directory]\nintegrated = true\n")
        alpha = office.qm
        alpha.call("POST", "/directory", {"document": document(alpha.guid, "ALPHA")})
        alpha.queue(LEDGER).send(b"from before", transactional=True)
        office.server.kill()
        settings = office.server.home / "posthouse.toml"
        settings.write_text(settings.read_text().replace("integrated = true", "integrated = false"))
        office.server.start()
        assert alpha.status().directory.reason == "this is a workgroup"
        wait_until(lambda: "directory cannot be reached" in error(alpha), lambda: error(alpha))
        with pytest.raises(NoDs, match="no directory in a workgroup"):
            alpha.call("GET", "/directory")
        for refused in (
            lambda: alpha.create_queue(r"ALPHA\public"),
            lambda: alpha.find_queues(),
            lambda: alpha.queue(ORDERS).send(b"x"),
            lambda: alpha.call("GET", f"/directory/place?queue={ORDERS}"),
            lambda: alpha.call("POST", "/directory/users", {"user": "S-1-5-21-7", "name": "Eve"}),
        ):
            with pytest.raises(QueueError):
                refused()
        alpha.create_queue(r".\private$\plain").send(b"x")
        assert alpha.queue(r".\private$\plain").receive(0).body == b"x"


def own_addresses() -> list[str]:
    """Where this machine can be reached from others; a machine without a network has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return [str(probe.getsockname()[0])]
    return []


def test_a_queue_manager_enters_where_it_listens(tmp_path: Path) -> None:
    with ExitStack() as running:
        for number, host in enumerate(["0.0.0.0", *own_addresses()]):
            name = f"ALPHA{number}"
            office = Office(tmp_path / name, name, running, machine=f'listen = "{host}"')
            (machine,) = office.qm.call("GET", "/directory")["machines"]
            (address,) = machine["addresses"]
            assert address.endswith(f":{office.port}")
            assert address.startswith(host) is (number > 0)  # everywhere: by its name


@pytest.mark.parametrize("data", [b"damaged", encode_entry(Entry(site(7, "Berlin"), frozenset()))])
def test_a_damaged_record_of_the_directory_is_told_at_the_start(
    tmp_path: Path, data: bytes
) -> None:
    """One that is not an object, and one that is another than its key says."""
    with EmbeddedQueueManager(tmp_path, name="ALPHA") as opened:
        opened.run(lambda m: m.ledger.define(TABLE_DIRECTORY, record_key(site(8, "Paris")), data))
    with pytest.raises(MalformedPacket, match="directory record"):
        posthouse.open(tmp_path, name="ALPHA")
