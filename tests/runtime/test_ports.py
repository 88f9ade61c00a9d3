"""Which ports the listeners have."""

from __future__ import annotations

import pytest

from posthouse.runtime.ports import STANDARD_PORTS, PortSet, own_ports, port_of


@pytest.mark.spec("MS-MQQB 2.1.1/2")
@pytest.mark.parametrize(
    ("endpoint", "standard", "user"),
    [
        ("binary", 1801, 1801),
        ("ping", 3527, 3527),
        ("rpc", 2103, 2103),
        ("epm", 135, 10135),
        ("http", 80, 10080),
        ("https", 443, 10443),
        ("ncp", 524, 10524),
        ("admin", 8816, 8816),
    ],
)
def test_privileged_ports_move_up_for_users(endpoint: str, standard: int, user: int) -> None:
    assert port_of(endpoint, PortSet.STANDARD) == standard
    assert port_of(endpoint, PortSet.USER) == user
    assert port_of(endpoint, PortSet.EPHEMERAL) == 0


def test_every_endpoint_has_a_port() -> None:
    assert len(STANDARD_PORTS) == 8
    assert own_ports(PortSet.EPHEMERAL) == frozenset()
