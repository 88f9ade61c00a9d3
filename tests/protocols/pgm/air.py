"""Queue managers that multicast to each other in memory: losses as the test says, time by hand."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from posthouse.engine.ledger.effects import Event
from posthouse.protocols.pgm.protocol import PgmProtocol
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.srmp_bridge import take_in, write_message
from tests.protocols.binary.memory_net import Machine, Net

FAST = PgmSettings(rate=10_000_000)


class Air(Net):
    """The network; `loses` says of a datagram whether nobody gets it."""

    def __init__(self) -> None:
        super().__init__()
        self.loses: Callable[[int, bytes], bool] = lambda kind, packet: False
        self.carried: list[tuple[str, bytes]] = []

    def station(self, name: str, address: str, settings: PgmSettings = FAST) -> Station:
        """A queue manager that listens and sends."""
        made = Station(self, name, address, 1801, pgm=settings)
        self.machines.append(made)
        made.start()
        self.run()
        return made


class Station(Machine):
    """A queue manager with PGM, and the `PgmNetwork` that its protocol sees."""

    def __init__(
        self, net: Air, name: str, address: str, port: int, *, pgm: PgmSettings, **more: Any
    ) -> None:
        self._wakes: dict[str, int | None] = {"binary": None, "pgm": None}
        self.air, self.pgm_settings = net, pgm
        self.groups: set[str] = set()
        self.failing = ""  # why the network cannot be used
        self.paused = False
        self.pauses = 0
        self.told: list[Event] = []
        super().__init__(net, name, address, port, **more)

    def start(self) -> None:
        super().start()
        clock, chance = self.net.clock, Random(self.name)
        self.pgm = PgmProtocol(
            self.desk,
            self.pgm_settings,
            PgmSide(self),
            lambda: clock.now_ms,
            chance=chance.randint,
            gsi=chance.randbytes(6),
            write=write_message,
            take_in=take_in,
        )
        self.pgm.on_event = self.told.append
        binary = self.driver.on_active

        def active(numbers: set[int]) -> None:
            binary(numbers)
            self.pgm.active(numbers)

        self.driver.on_active = active
        self.pgm.start()

    @property
    def wake_ms(self) -> int | None:  # type: ignore[override]
        return min([at for at in self._wakes.values() if at is not None], default=None)

    @wake_ms.setter
    def wake_ms(self, value: int | None) -> None:
        self._wakes["binary"] = value

    def wake(self) -> None:
        now_ms = self.net.clock.now_ms
        at = self._wakes["pgm"]
        if self.up and at is not None and at <= now_ms:
            self._wakes["pgm"] = None
            self.pgm.tick()
        at = self._wakes["binary"]
        if self.up and at is not None and at <= now_ms:
            self._wakes["binary"] = None
            self.protocol.tick()

    def events(self, name: str) -> list[Event]:
        return [event for event in self.told if event.name == name]


class PgmSide:
    """What one station's protocol sees of the network."""

    def __init__(self, station: Station) -> None:
        self._station, self._air = station, station.air

    def _try(self) -> None:
        if self._station.failing:
            raise OSError(101, self._station.failing)

    def open_source(self, group: str) -> str:
        self._try()
        return self._station.addresses[0]

    def join(self, group: str) -> None:
        self._try()
        self._station.groups.add(group)

    def leave(self, group: str) -> None:
        self._station.groups.discard(group)

    def multicast(self, group: str, kind: int, packet: bytes) -> None:
        self._air.carried.append((group, packet))
        if self._air.loses(kind, packet):
            return
        for machine in self._air.machines:
            assert isinstance(machine, Station)
            if machine.up and group in machine.groups:
                self._deliver(machine, packet, group)

    def _deliver(self, to: Station, packet: bytes, group: str | None) -> None:
        sender = self._station.addresses[0]
        self._air.events.append(lambda: to.pgm.receive(packet, sender, group))

    def multicast_near(self, group: str, packet: bytes) -> None:
        self.multicast(group, packet[4], packet)

    def unicast(self, address: str, packet: bytes) -> None:
        self._air.carried.append((address, packet))
        for machine in self._air.machines:
            assert isinstance(machine, Station)
            if machine.up and address in machine.addresses:
                self._deliver(machine, packet, None)

    def pause(self) -> None:
        assert not self._station.paused
        self._station.paused = True
        self._station.pauses += 1

    def resume(self) -> None:
        assert self._station.paused
        self._station.paused = False

    def wake_at(self, when_ms: int) -> None:
        self._station._wakes["pgm"] = when_ms


def quick(**changes: Any) -> PgmSettings:
    return replace(FAST, **changes)
