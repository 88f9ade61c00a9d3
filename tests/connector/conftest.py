"""The queue managers that connectors are tested with: one in this process, and a server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import posthouse
from posthouse.client.manager import QueueManagerClient
from tests.connector.foreign_site import connect_streams, empty, new_home
from tests.process.serving import Serving

SETTINGS = '[queue_manager]\nname = "ALPHA"\nrouting_server = true\n'


@pytest.fixture(scope="session")
def server() -> Iterator[Serving]:
    """A process for all tests of a worker."""
    with tempfile.TemporaryDirectory(prefix="ph-") as folder:
        settings = Path(folder, "posthouse.toml")
        settings.write_text(SETTINGS)
        with Serving(Path(folder), "--config", str(settings)) as running:
            running.ready()
            yield running


@pytest.fixture(params=["embedded", "served"])
def manager(request: pytest.FixtureRequest) -> Iterator[QueueManagerClient]:
    """The connector server of the foreign site Streams."""
    if request.param == "served":
        with posthouse.connect(request.getfixturevalue("server").home) as opened:
            connect_streams(opened)
            empty(opened)
            yield opened
            assert opened.books().balanced
        return
    home = new_home()
    with posthouse.open(home, name="ALPHA") as opened:
        connect_streams(opened)
        yield opened
        assert opened.books().balanced
    shutil.rmtree(home)
