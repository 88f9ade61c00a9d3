"""Sites, links and gates put together from what the directory holds ([MS-MQDMPR] 3.1.1.7, .8)."""

from collections.abc import Callable, Iterable

from posthouse.directory.base import Found
from posthouse.directory.objects import QueueManager, RoutingLink

ReadMachine = Callable[[bytes], Found[QueueManager]]


def gate_identifiers(site_identifier: bytes, links: Iterable[RoutingLink]) -> list[bytes]:
    """The machines that links of the site name as gates, each once, in the order of the links."""
    named = (
        gate
        for link in links
        if link.touches(site_identifier)
        for gate in link.site_gate_identifier_list
    )
    return list(dict.fromkeys(named))


def refreshed_gates(
    site_identifier: bytes,
    named: Iterable[bytes],
    known: dict[bytes, QueueManager],
    read: ReadMachine,
) -> dict[bytes, QueueManager]:
    """SiteGateCollection: machines named as gates that belong to the site themselves.

    It is not an attribute of the directory but follows from the links. A gate that cannot be read
    keeps the attributes it had.
    """
    gates: dict[bytes, QueueManager] = {}
    for identifier in named:
        found = read(identifier)
        gate = known.get(identifier, found.value)
        if gate is not None and found.value is not None:
            gate = found.merged(gate)
        if gate is not None and site_identifier in gate.site_identifier_list:
            gates[identifier] = gate
    return gates
