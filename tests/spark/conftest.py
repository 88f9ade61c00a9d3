"""Servers to read from and write to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.process.spark_office import SparkOffice, path_of

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkOffice]:
    """A real server process with a token: `url`, `token_file`, `qm` (connected), `create`,
    `send`, `bodies`, `count`."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path_factory.mktemp("offices") / "alpha", running)


@pytest.fixture(scope="session")
def branch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkOffice]:
    """A second queue manager, BRAVO."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path_factory.mktemp("offices") / "bravo", running, "BRAVO")


@pytest.fixture
def queue(office: SparkOffice) -> Callable[..., str]:
    """`queue(**properties)`: a new queue in the office; its short name."""

    def make(**properties: Any) -> str:
        name = f"queue{next(_NUMBERS)}"
        office.create(name, **properties)
        return name

    return make


@pytest.fixture
def access(office: SparkOffice) -> dict[str, str]:
    """The options that lead to the office."""
    return {"url": office.url, "tokenFile": str(office.token_file)}


@pytest.fixture
def options(access: dict[str, str]) -> Callable[..., dict[str, str]]:
    """`options(name, **more)`: all options of a read of one of the office's queues."""

    def make(name: str, **more: object) -> dict[str, str]:
        texts = {key: str(value) for key, value in more.items()}
        return {**access, "queue": path_of(name), **texts}

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a stream keeps its progress."""
    return str(tmp_path / "checkpoint")
