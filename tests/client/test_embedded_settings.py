"""A queue manager in this process has the settings of its home, as one that serves it has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import posthouse
from posthouse.model.errors import InsufficientResources

ORDERS = r".\private$\orders"


def test_its_limits_hold(home: Path) -> None:
    (home / "posthouse.toml").write_text('[queue_manager]\nmachine_quota = "8KiB"\n')
    with posthouse.open(home, name="ALPHA") as qm:
        orders = qm.create_queue(ORDERS)
        orders.send(bytes(4000), recoverable=True)
        with pytest.raises(InsufficientResources, match="8 KiB"):
            orders.send(bytes(4000), recoverable=True)
        assert len(orders.receive(timeout=0).body) == 4000
        with pytest.raises(posthouse.IoTimeout):
            orders.receive(timeout=0)


def test_its_store_has_the_settings_of_the_store(home: Path) -> None:
    (home / "posthouse.toml").write_text('[store]\nsegment_size = "1MiB"\n')
    with posthouse.open(home, name="ALPHA") as qm:
        orders = qm.create_queue(ORDERS)
        for _ in range(5):
            orders.send(os.urandom(700_000), recoverable=True)
    assert len(list((home / "store").glob("*.log"))) >= 3


def test_a_name_that_is_given_counts_more_than_that_of_the_settings(home: Path) -> None:
    (home / "posthouse.toml").write_text('[queue_manager]\nname = "BETA"\naliases = ["OTHER"]\n')
    with posthouse.open(home, name="ALPHA") as qm:
        assert qm.status().name == "ALPHA"
        qm.create_queue(ORDERS).send(b"one")
        assert qm.queue(r"OTHER\private$\orders").receive(timeout=0).body == b"one"


def test_its_keys_are_as_long_as_the_settings_want(home: Path) -> None:
    (home / "posthouse.toml").write_text("[security]\nkey_bits = 1024\n")
    with posthouse.open(home, name="ALPHA") as qm:
        assert qm.call("POST", "/certificates", {})["key_bits"] == 1024


@pytest.mark.parametrize("ports", ["", '[queue_manager]\nports = "ephemeral"\n'])
def test_a_name_with_the_port_of_the_document_is_its_own(home: Path, ports: str) -> None:
    """Nothing listens: what the ports of a server are does not count."""
    (home / "posthouse.toml").write_text(ports)
    with posthouse.open(home, name="ALPHA") as qm:
        orders = qm.create_queue(ORDERS)
        qm.queue("DIRECT=HTTP://127.0.0.1:80/msmq/private$/orders").send(b"one")
        assert orders.receive(timeout=0).body == b"one"
