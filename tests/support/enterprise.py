"""Machines of two sites with routing servers, joined in memory."""

from __future__ import annotations

from collections.abc import Iterable

from posthouse.directory.objects import DirectoryObject, QueueManager, RoutingLink, Site
from posthouse.engine.manager import QueueManager as Engine
from posthouse.model.guids import format_guid
from posthouse.protocols.binary.settings import BinarySettings
from tests.protocols.binary.memory_net import Machine, Net

NORTH, SOUTH = b"\x01" * 16, b"\x02" * 16


SITES = (Site(identifier=NORTH, name="North"), Site(identifier=SOUTH, name="South"))


ORDERS = r".\private$\orders"


QUICK = BinarySettings(retry_connect_ms=100, next_hop_ms=50)


class Enterprise:
    """Two sites: ALPHA and two gates in the north, one gate and OMEGA in the south."""

    def __init__(self) -> None:
        self.net = Net()
        self.alpha = self._machine("ALPHA", 1)
        self.gates = [self._machine("GATE1", 2, routing_server=True)]
        self.gates.append(self._machine("GATE2", 3, routing_server=True))
        self.south = self._machine("SOUTH", 4, routing_server=True)
        self.omega = self._machine("OMEGA", 5)
        self.machines = [self.alpha, *self.gates, self.south, self.omega]
        for machine in self.machines:
            self.enter(machine, self.objects())
        self.omega.create(ORDERS, transactional=True)
        (self.orders,) = [
            queue.number
            for queue in self.omega.manager.ledger.queues.values()
            if queue.definition.pathname.endswith("orders")
        ]
        self.to_omega = f"PRIVATE={format_guid(guid_of(self.omega))}\\{self.orders:08x}"

    def _machine(self, name: str, host: int, **engine: bool) -> Machine:
        return self.net.machine(name, f"10.0.0.{host}", settings=QUICK, **engine)

    def objects(self) -> list[DirectoryObject]:
        """What everybody's directory holds."""
        link = RoutingLink(
            identifier=b"\x03" * 16,
            site1_identifier=NORTH,
            site2_identifier=SOUTH,
            actual_cost=7,
            site_gate_identifier_list=tuple(map(guid_of, [*self.gates, self.south])),
        )
        sites = {one.name: SOUTH for one in (self.south, self.omega)}
        machines = [entry_of(one, sites.get(one.name, NORTH)) for one in self.machines]
        return [*SITES, *machines, link]

    def enter(
        self, machine: Machine, values: Iterable[DirectoryObject], *, again: bool = False
    ) -> None:
        def run(manager: Engine) -> None:
            service, core = manager.directory.service, manager.ledger
            for value in values:
                if again or value.identifier == core.guid:
                    service.write_directory(value, core.now_ms, core.utc)
                else:
                    service.create_directory_object(value, core.now_ms, core.utc)

        machine.call(run)

    def change(self, value: DirectoryObject) -> None:
        """Everybody learns of a change."""
        for machine in self.machines:
            self.enter(machine, [value], again=True)

    def arrived(self) -> list[bytes]:
        return self.omega.bodies(ORDERS)

    def waiting(self, machine: Machine) -> int:
        return sum(queue.state.count for queue in machine.manager.queues.outgoing_queues())


def guid_of(machine: Machine) -> bytes:
    return machine.manager.machine.identifier


def entry_of(machine: Machine, *sites: bytes, **more: object) -> QueueManager:
    return QueueManager(
        identifier=guid_of(machine),
        computer_name=machine.name,
        site_identifier_list=sites,
        routing_server=machine.engine.queue_manager.routing_server,
        **more,  # type: ignore[arg-type]
    )


BODIES = [b"%d" % number for number in range(5)]
