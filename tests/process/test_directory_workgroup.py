"""A queue manager of a workgroup, as a real process: it has no directory, and says so."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.model.errors import NoDs, QueueError
from tests.connector.foreign_site import ORDERS
from tests.process.offices import Office


def test_there_is_no_directory_in_a_workgroup(tmp_path: Path) -> None:
    with ExitStack() as running:
        more = "[directory]\nintegrated = false\n"
        alpha = Office(tmp_path / "ALPHA", "ALPHA", running, more).qm
        assert alpha.status().directory.reason == "this is a workgroup"
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
