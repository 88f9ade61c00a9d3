"""A simulated machine: its place in the network, its lives, and the moments at which it may crash.

What happens to a machine comes through `SimMachine.enter`. When its power goes, in the middle of
whatever it does, `PowerLost` leads back there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.sim.clock import SimClock, Timer
from posthouse.sim.faults import PowerLost
from posthouse.sim.network import Connection, SimNetwork

Overheard = Callable[[Connection, list[bytes]], None]


@dataclass
class World:
    """What all machines share."""

    clock: SimClock
    network: SimNetwork
    chance: Random
    binary: BinarySettings
    ping: PingSettings = field(default_factory=PingSettings)
    insecure_nacks: bool = False
    srmp: SrmpSettings | None = None  # None: no machine listens for HTTP
    receipt_ms: tuple[int, int] = (500, 10_000)  # how long stream receipts wait, at most
    routers: frozenset[str] = frozenset()  # names of routing servers
    nat: str = ""  # the address that some machines are seen as by all others
    forwarded: dict[str, int] = field(default_factory=dict)  # those: ports that lead to their HTTP
    names: dict[str, str] = field(default_factory=dict)  # of computers, to addresses
    chances: dict[str, float] = field(default_factory=dict)  # of faults, each time
    overheard: Overheard = lambda connection, parts: None  # whatever a machine puts on a wire

    def happens(self, fault: str) -> bool:
        """Whether a fault comes now."""
        likely = self.chances.get(fault, 0.0)
        return likely > 0 and self.chance.random() < likely


class SimMachine:
    """One machine, which lives several times."""

    def __init__(self, world: World, name: str, address: str, seed: int) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.seen_as = world.nat if name in world.forwarded else None
        self.chance = Random(seed)
        self.up = False
        self.life = 0
        self.crashes = 0
        self.in_crash_mood = False  # whether it may crash at any moment

    def enter(self, action: Callable[[], None], life: int) -> None:
        """Lets something happen to this machine, unless it is off or that was another life."""
        if self.up and self.life == life:
            try:
                action()
            except PowerLost:
                self._fall()

    def point(self) -> None:
        """A moment between two steps, at which the power may go."""
        if self.in_crash_mood and self.world.happens("crash"):
            raise PowerLost(self.name)

    def crash(self) -> None:
        """The power goes now."""
        if self.up:
            self._fall()

    def _fall(self) -> None:
        self.up = False
        self.crashes += 1
        self.world.network.kill(self.address)

    def later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Acts after a while, in the same life or not at all."""
        life = self.life
        return self.world.clock.call_later(max(delay_ms, 0), lambda: self.enter(action, life))
