"""Multicast: the door `pgm`, which has no port of its own."""

from __future__ import annotations

from posthouse.protocols.pgm.server import PgmNode
from posthouse.runtime.serve import Place, Service, event_writer


def pgm_node(service: Service) -> PgmNode | None:
    """PGM; [MS-MQDMPR] 3.1.1.1: a hardened machine has none."""
    section = service.settings.pgm
    if not section.enabled or service.settings.queue_manager.hardened:
        return None
    interface = section.interface or service.host
    node = PgmNode(service.desk, section, interface=interface)
    node.protocol.on_event = event_writer(service.log)
    return node


def pgm_door(service: Service, node: PgmNode) -> Place:
    """It joins groups when it starts; there is nothing to connect to."""
    return Place(node, service.host, 0)
