"""Homes that are short enough for a socket, and a server for the tests of a module."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.serving import Serving, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """One server; each test makes queues of its own."""
    home = Path(tempfile.mkdtemp(prefix="ph-"))
    with serving(home) as running:
        yield running
    shutil.rmtree(home)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of one test's own."""
    path = Path(tempfile.mkdtemp(prefix="ph-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """The path name of a queue that no other test uses."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return rf".\private$\{name[-100:]}"
