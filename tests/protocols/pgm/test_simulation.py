"""A source and its receivers on a network that loses, doubles and reorders, by seed."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from posthouse.protocols.pgm.receiver import ASKED_MAX, PgmReceiver
from posthouse.protocols.pgm.session import MulticastPlace, Reception
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.source import PgmSession, Source
from posthouse.protocols.timers import Timers
from posthouse.sim.clock import SimClock, Timer
from posthouse.sim.network import Address, Conditions, SimNetwork
from posthouse.wire.pgm.packets import ODATA, RDATA, SPM, Tsi, read_pgm
from tests.conftest import Dose

PLACE = MulticastPlace("234.1.1.1", 8001)
GROUP, SOURCE = Address(PLACE.group, 3056), Address("10.0.0.1", 3055)
SETTINGS = PgmSettings(receive_total=4 << 20)


class House:
    """A host that listens."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.units: list[bytes] = []
        self.lost = 0
        self.held_max = 0
        clock = world.clock
        self._at_ms: int | None = None
        self.timers = Timers(self._wake)
        self.reception = Reception(
            world.settings, self, self.timers, world.random.randint, lambda: clock.now_ms
        )
        self.reception.listen(PLACE)
        world.network.bind(GROUP, self._take, host=name)

    def _wake(self, at_ms: int) -> None:
        clock = self.world.clock
        clock.call_at(max(at_ms, clock.now_ms), lambda: self.timers.run(clock.now_ms))

    def _take(self, datagram: bytes, sender: Address, now_ms: int) -> None:
        self.reception.receive(PLACE.group, read_pgm(datagram), sender.host)
        self.held_max = max(self.held_max, self.reception.holding.bytes)
        for receiver in self.reception.receivers:
            assert receiver.missing <= ASKED_MAX

    def unit_came(self, place: MulticastPlace, source: str, unit: bytes) -> None:
        assert (place, source) == (PLACE, SOURCE.host)
        self.units.append(unit)

    def packets_lost(self, place: MulticastPlace, receiver: PgmReceiver, count: int) -> None:
        self.lost += count

    def send_nak(self, group: str, path: str, packet: bytes) -> None:
        own = Address(self.name, 3055)
        self.world.network.send_datagram(own, Address(path, 3055), packet)
        self.world.network.send_datagram(own, GROUP, packet)


class World:
    """One source, some houses, and the network between them."""

    def __init__(self, seed: int, houses: int, settings: PgmSettings = SETTINGS) -> None:
        self.clock, self.random, self.settings = SimClock(), Random(seed), settings
        self.network = SimNetwork(seed, self.clock, Conditions(delay_ms=(1, 20)))
        self.network.bind(SOURCE, self._nak)
        self._timer: Timer | None = None
        self.houses = [House(self, f"10.0.1.{n}") for n in range(houses)]
        self.out: list[Hashable] = []
        self.sent: dict[int, int] = {SPM: 0, ODATA: 0, RDATA: 0}
        self.source = Source(
            PgmSession(Tsi(b"source", self.random.randrange(1, 65_536)), *PLACE, SOURCE.host),
            settings,
            self._multicast,
            self.out.extend,
            first_sequence=self.random.randrange(1 << 32),
            now_ms=self.clock.now_ms,
        )
        self.send([])  # the first SPMs, which nothing overtakes here
        self.run_for(100)

    def worsen(self, loss: float, double: float) -> None:
        """From now on, datagrams get lost and doubled."""
        self.network.conditions = Conditions(
            delay_ms=(1, 60), datagram_loss=loss, datagram_double=double
        )

    def _multicast(self, kind: int, packet: bytes) -> None:
        self.sent[kind] = self.sent.get(kind, 0) + 1
        self.network.send_datagram(SOURCE, GROUP, packet)

    def _nak(self, datagram: bytes, sender: Address, now_ms: int) -> None:
        self.source.receive(read_pgm(datagram), now_ms)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self.source.next_deadline_ms(self.clock.now_ms)
        self._timer = None if due is None else self.clock.call_at(due, self._tick)

    def _tick(self) -> None:
        self.source.tick(self.clock.now_ms)
        self._arm()

    def send(self, units: list[bytes]) -> None:
        for at, unit in enumerate(units):
            self.source.offer(at, unit, self.clock.now_ms)
        self.source.tick(self.clock.now_ms)
        self._arm()

    def run_for(self, ms: int) -> None:
        self.clock.advance(ms)


def units(random: Random, count: int) -> list[bytes]:
    """Most are short, some long; each is told from the others."""
    sizes = [random.choice((40, 300, 900, 1_500, 6_000)) for _ in range(count)]
    return [b"%06d" % at + random.randbytes(size) for at, size in enumerate(sizes)]


@pytest.mark.spec("PGM/36", "PGM/38", "PGM/39", "MC-MQSRM 2.1.3/4")
@pytest.mark.parametrize("loss", [0.01, 0.2])
def test_everything_is_repaired_completely_and_in_order(loss: float, dose: Dose) -> None:
    for seed in range(dose(3, 60)):
        world = World(seed, houses=3)
        world.run_for(200)
        first = units(world.random, 3)
        world.send(first)
        world.run_for(3_000)  # everybody has taken up the session
        world.worsen(loss, double=0.05)
        rest = units(world.random, 250)
        world.send(rest)
        world.run_for(60_000)
        assert len(world.out) == 253, seed
        for house in world.houses:
            assert house.units == first + rest, seed
            assert (house.lost, house.reception.holding.bytes) == (0, 0), seed
            assert house.held_max <= SETTINGS.receive_bytes, seed
            assert house.reception.count("duplicates") > 0, seed
        assert world.sent[RDATA] > world.sent[ODATA] * loss / 2, seed


@pytest.mark.spec("PGM/35")
def test_many_receivers_that_miss_the_same_ask_seldom(dose: Dose) -> None:
    world = World(7, houses=20)
    world.send(units(world.random, 2))
    world.run_for(2_000)
    with_nobody = world.network.conditions
    world.network.conditions = Conditions(delay_ms=(1, 2), datagram_loss=1.0)
    world.send([b"unseen by all"])
    world.run_for(5)
    world.network.conditions = Conditions(delay_ms=(1, 2))
    world.send([b"seen by all"])
    world.run_for(20_000)
    assert {tuple(house.units[-2:]) for house in world.houses} == {
        (b"unseen by all", b"seen by all")
    }
    asked = sum(house.reception.count("naks") for house in world.houses)
    assert asked < 10
    assert world.sent[RDATA] <= 2
    assert with_nobody.datagram_loss == 0


@pytest.mark.spec("PGM/37")
def test_who_was_away_for_longer_than_the_window_hears_of_the_loss() -> None:
    settings = PgmSettings(window_ms=20_000)
    world = World(3, houses=2, settings=settings)
    world.send([b"before"])
    world.run_for(2_000)
    gone, here = world.houses
    world.network.partition(SOURCE.host, gone.name)
    for at in range(100):
        world.send([b"%03d" % at])
        world.run_for(1_000)
    world.network.heal(SOURCE.host, gone.name)
    world.run_for(30_000)
    world.send([b"after"])
    world.run_for(10_000)
    assert here.units == [b"before", *(b"%03d" % at for at in range(100)), b"after"]
    assert gone.units[0] == b"before"
    assert gone.units[-1] == b"after"
    assert gone.lost == len(here.units) - len(gone.units) > 50
    assert gone.units == sorted(gone.units, key=here.units.index)


@pytest.mark.spec("PGM/40", "MC-MQSRM 2.1.3/7")
def test_what_was_lost_in_front_of_the_end_is_repaired_after_it() -> None:
    world = World(5, houses=2)
    world.send([b"one"])
    world.run_for(2_000)
    world.worsen(0.3, 0.0)
    world.send([b"two", b"three", b"four"])
    world.source.finish(world.clock.now_ms)
    world.run_for(60_000)
    for house in world.houses:
        assert house.units == [b"one", b"two", b"three", b"four"]
        assert [receiver.ended for receiver in house.reception.receivers] == ["finished"]
    world.run_for(300_000)
    assert world.source.ended
    world.run_for(300_000)
    assert not world.houses[0].reception.receivers


@pytest.mark.spec("PGM/30")
def test_a_late_joiner_hears_what_comes_from_then_on() -> None:
    world = World(11, houses=1)
    earlier = units(world.random, 20)
    world.send(earlier)
    world.run_for(1_000)
    late = House(world, "10.0.9.9")
    world.run_for(30_000)
    later = units(world.random, 5)
    world.send(later)
    world.run_for(30_000)
    assert world.houses[0].units == earlier + later
    assert 0 < len(late.units) < 25
    assert late.units == (earlier + later)[-len(late.units) :]
    assert late.lost == 0
