"""Servers that several files of tests read from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.process.rpc_house import House
from tests.process.spark_cluster import Cluster


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server where anybody may read, and in the clear."""
    with ExitStack() as running:
        yield House(tmp_path_factory.mktemp("house"), "ALPHA", running, minimum="none")


@pytest.fixture(scope="session")
def strict_house(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with no word of its operator about protection; a peer of the other one."""
    with ExitStack() as running:
        strict = House(tmp_path_factory.mktemp("strict"), "BRAVO", running)
        house.trust(strict, strict.trust(house))
        yield strict


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone Spark cluster of two workers."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start()
        yield cluster
