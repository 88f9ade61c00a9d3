"""A queue manager of a workgroup, as a real process: it has no directory, and says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import NoDs, QueueError
from tests.connector.foreign_site import LEDGER, ORDERS, document
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
