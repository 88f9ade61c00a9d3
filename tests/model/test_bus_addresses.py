"""Addresses of message buses as names of queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.bus_addresses import queue_of_address
from posthouse.model.errors import IllegalQueuePathname
from posthouse.model.names import parse_name


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("orders", r".\private$\orders"),
        ("orders@.", r".\private$\orders"),
        (" orders@localhost ", r".\private$\orders"),
        ("Sales.Orders@WEB01", r"DIRECT=OS:WEB01\private$\Sales.Orders"),
        ("orders@web01.corp.example", r"DIRECT=OS:web01.corp.example\private$\orders"),
        ("orders@10.1.2.3", r"DIRECT=TCP:10.1.2.3\private$\orders"),
        ("a@b@WEB01", r"DIRECT=OS:WEB01\private$\a@b"),
        (r"private$\orders@WEB01", r"DIRECT=OS:WEB01\private$\orders"),
        (r"private$/orders", r".\private$\orders"),
        (r"WEB01\private$\orders", r"WEB01\private$\orders"),
        (r".\private$\orders;retry", r".\private$\orders;retry"),
        (r"FormatName:DIRECT=OS:WEB01\private$\orders", r"DIRECT=OS:WEB01\private$\orders"),
        (r"DIRECT=TCP:10.0.0.1\orders", r"DIRECT=TCP:10.0.0.1\orders"),
    ],
)
def test_an_address_names_a_private_queue(address: str, name: str) -> None:
    assert queue_of_address(address) == name


@pytest.mark.parametrize("address", ["", "@", "@WEB01", "a+b,c@x y", "x" * 2000, "PUBLIC=1", "=\\"])
def test_what_names_no_queue_is_refused(address: str) -> None:
    with pytest.raises(IllegalQueuePathname):
        queue_of_address(address)


@given(st.text(max_size=60))
def test_any_text_gives_a_name_or_a_refusal(address: str) -> None:
    try:
        name = queue_of_address(address)
    except IllegalQueuePathname:
        return
    parse_name(name)
