"""`posthouse lease`: who holds messages is listed, and ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import posthouse
from tests.cli.conftest import Posthouse, Typed
from tests.client.serving import Serving

QUEUE = "./private$/leased"
PATH = "/queues/.%5Cprivate$%5Cleased"


@pytest.fixture(autouse=True)
def leases(ph: Posthouse, server: Serving) -> Iterator[list[str]]:
    """Two leases, of two messages and of one."""
    ph("queue", "create", QUEUE)
    ph("send", QUEUE, "--body", "x", "--count", "4", "--recoverable")
    with posthouse.connect(server.home) as qm:
        made = [
            qm.call("POST", f"{PATH}/lease", {"count": count, "lease_s": 60})["lease"]
            for count in (2, 1)
        ]
    yield made
    assert ph("queue", "delete", QUEUE, "--yes").code == 0


def messages(ph: Posthouse) -> tuple[int, int]:
    queue = ph("queue", "show", QUEUE, "--json").value
    return queue["messages"], queue["locked"]


def test_leases_are_listed_and_their_holders_shown(ph: Posthouse, leases: list[str]) -> None:
    shown = ph("lease", "list").out
    assert all(lease in shown for lease in leases)
    lines = ph("lease", "list", "--queue", "leased", "--user", "administrator", "--json").lines
    assert [(line["lease"], line["messages"]) for line in lines] == list(
        zip(leases, (2, 1), strict=True)
    )
    assert ph("lease", "list", "--user", "nobody-else", "--json").lines == []
    shown = ph("queue", "show", QUEUE).out
    assert "Holders of locked messages" in shown
    (holder,) = ph("queue", "show", QUEUE, "--json").value["holders"]
    assert holder == {"user": "administrator", "by": "lease", "messages": 3}


def test_leases_are_ended_when_it_is_confirmed(ph: Posthouse, leases: list[str]) -> None:
    first, second = leases
    assert ph("lease", "end", first, "--dry-run").out == "Would end 1 lease with 2 messages.\n"
    assert ph("lease", "end", first, stdin=b"n\n", terminal=True).code == 1
    assert messages(ph) == (4, 3)
    assert ph("lease", "end", first, "--yes").out == "Ended 1 lease with 2 messages.\n"
    assert messages(ph) == (4, 1)
    gone = ph("lease", "end", second, first, "--yes")
    assert gone.code == 1
    assert f"there is no lease {first}" in gone.err
    assert messages(ph) == (4, 1)
    assert ph("lease", "end", "--queue", "leased", "--yes", "--json").lines == [
        {"lease": second, "messages": 1}
    ]
    assert messages(ph) == (4, 0)


def test_a_lease_that_its_holder_ends_meanwhile_does_not_keep_the_others(
    ph: Posthouse, server: Serving, leases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Typed):
        """A person whose answer comes when the holder of a lease is done."""

        def readline(self, size: int = -1, /) -> str:
            with posthouse.connect(server.home) as qm:
                qm.call("POST", f"/leases/{leases[0]}/end", {"outcome": "received"})
            return super().readline(size)

    monkeypatch.setattr("tests.cli.conftest.Typed", Slow)
    ended = ph("lease", "end", "--queue", "leased", stdin=b"y\n", terminal=True)
    assert ended.code == 0
    assert ended.out.endswith("Ended 1 lease with 1 message.\n")
    assert messages(ph) == (2, 0)


def test_without_a_choice_no_lease_is_ended(ph: Posthouse) -> None:
    refused = ph("lease", "end", "--yes")
    assert (refused.code, messages(ph)) == (2, (4, 3))
    assert "name leases, or choose them" in refused.err
