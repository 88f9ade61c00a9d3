"""Other Sparks than that of the suite: run by `make any-spark`, and left out of `make test`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.process.spark_office import SparkOffice

collect_ignore_glob = [] if os.environ.get("POSTHOUSE_ANY_SPARK") == "1" else ["test_*.py"]


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkOffice]:
    """A real server process with a token."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path_factory.mktemp("offices") / "alpha", running)
