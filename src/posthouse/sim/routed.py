"""Seven queue managers in three sites: messages that travel over routing servers and site gates.

The trial of `posthouse.sim.trial`, with a directory that everybody learns in bits: routers and
gates die, sites are cut off from each other, links get other costs and other gates, and meanwhile
no two machines need to agree on the way.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from posthouse.directory.document.document import (
    Document,
    LinkPart,
    MachinePart,
    QueuePart,
    SitePart,
    described,
)
from posthouse.engine.manager import QueueManager
from posthouse.model.guids import format_guid
from posthouse.protocols.engine_calls import Answer
from posthouse.sim import workload
from posthouse.sim.balance_check import Account
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import ADMIN, NOWHERE, Letter
from posthouse.sim.routed_balance_check import RoutedAccount, Ways
from posthouse.sim.trial import BASE_ACTS, Acts, Trial, private_name

ROUTED: Final = "routed"
NORTH, MIDDLE, SOUTH = "North", "Middle", "South"
PLACES: Final = {
    "ALPHA": NORTH,
    "NORA": NORTH,
    "NED": NORTH,
    "MIKE": MIDDLE,
    "WENDY": MIDDLE,
    "SAM": SOUTH,
    "OMEGA": SOUTH,
}
ROUTERS: Final = frozenset({"NORA", "NED", "MIKE", "SAM"})
CIRCLING_MS: Final = 10_000  # long enough for more hops than a message may make


class Way(NamedTuple):
    """A link between two sites, as it is now."""

    sites: tuple[str, str]
    cost: int
    gates: tuple[str, ...]


class RoutedTrial(Trial):
    """A trial in an enterprise."""

    @property
    def way(self) -> str:
        """The name of these trials in `posthouse selftest`."""
        return ROUTED

    def _names(self) -> tuple[str, ...]:
        chance = self.chance
        self.world.routers = ROUTERS
        self.directory_changes = 0
        self._by_address = chance.random() < 0.5  # of entries; else names have to be resolved
        self._two_gates = chance.random() < 0.5  # in the north
        self._direct = chance.random() < 0.3  # some queues go by their hosts
        self._loops = chance.random() < 0.15  # contradictory entries send messages in circles
        self._entrances: dict[str, str] = {}  # who leads to OMEGA, as machines believe then
        self._lists = {
            "out": ("NORA", "NED")[: chance.randint(0, 2)] if chance.random() < 0.5 else (),
            "in": ("SAM",) if chance.random() < 0.3 else (),
        }
        self._ways = [
            Way((NORTH, MIDDLE), chance.randint(1, 9), (*self._northern_gates, "MIKE")),
            Way((MIDDLE, SOUTH), chance.randint(1, 9), ("MIKE", "SAM")),
        ]
        if chance.random() < 0.7:
            self._ways.append(
                Way((NORTH, SOUTH), chance.randint(1, 9), (*self._northern_gates, "SAM"))
            )
        return tuple(PLACES)

    def _is_public(self, queue: str) -> bool:
        """In half of all trials some queues are known by names of the directory alone."""
        half = Random(f"{self.seed} public").random() < 0.5
        return half and queue != ADMIN and Random(f"{self.seed} public {queue}").random() < 0.5

    @property
    def _northern_gates(self) -> tuple[str, ...]:
        return ("NORA", "NED") if self._two_gates else ("NORA",)

    def _introduce(self) -> None:
        """No machine has had a session yet: the directory shows where each of them is."""
        self.ways = Ways()
        self._queues = [part for machine in self.machines for part in _public_queues(machine)]
        for machine in self.machines:
            if machine.name in ROUTERS:
                machine.on_turn, machine.on_event = self.ways.turned, self.ways.told
            document = self._document()
            machine.now(lambda m, d=document: _take_in(m, d))  # type: ignore[misc]

    def _document(self, entrance: str = "") -> Document:
        """The directory as it is now; `entrance` is who is believed to lead to OMEGA."""
        return Document(
            sites=[SitePart(name=site, guid=_guid(site)) for site in (NORTH, MIDDLE, SOUTH)],
            links=[
                LinkPart(sites=list(way.sites), cost=way.cost, gates=list(way.gates))
                for way in self._ways
            ],
            machines=[self._entry(machine, entrance) for machine in self.machines],
            queues=self._queues,
        )

    def _entry(self, machine: SimManager, entrance: str) -> MachinePart:
        name = machine.name
        part = MachinePart(
            name=name,
            guid=format_guid(machine.manager.machine.identifier),
            addresses=[machine.address] if self._by_address else [],
            sites=[PLACES[name]],
            routing_server=name in ROUTERS,
            in_routing_servers=list(self._lists["in"]) if name == "OMEGA" else [],
            out_routing_servers=list(self._lists["out"]) if name == "ALPHA" else [],
        )
        if entrance and name == "OMEGA":
            return MachinePart(
                name=name,
                guid=part.guid,
                addresses=part.addresses,
                sites=[NORTH, MIDDLE, SOUTH],
                in_routing_servers=[entrance],
            )
        return part

    # -- what applications do

    def _name_of(self, target: SimManager, queue: str) -> str:
        """By the GUID of the machine, as a rule."""
        direct = self._direct and Random(f"{self.seed}{queue}").random() < 0.5
        if direct or queue == NOWHERE:
            return self._direct_name(target, queue)
        if self._is_public(queue):
            identifier = workload.home(target.manager, queue).definition.identifier
            return f"PUBLIC={format_guid(identifier)}"
        return private_name(target, queue)

    def _direct_name(self, target: SimManager, queue: str) -> str:
        """By its host; that of a public queue has no `private$`."""
        if self._is_public(queue):
            return f"DIRECT=TCP:{target.address}\\{queue}"
        return super()._name_of(target, queue)

    def _administration(self, letter: Letter, sender: SimManager) -> str:
        if self._direct:
            return super()._administration(letter, sender)
        return private_name(sender, ADMIN)

    # -- what goes wrong

    def _acts(self) -> Acts:
        return _ACTS

    def _recost(self) -> None:
        """A link gets another cost, or other gates; each machine learns it in its own time."""
        at, chance = self.chance.randrange(len(self._ways)), self.chance
        way = self._ways[at]
        if chance.random() < 0.7:
            self._ways[at] = way._replace(cost=chance.randint(1, 9))
        else:
            north = chance.choice((("NORA",), ("NED",), ("NORA", "NED")))
            others = tuple(gate for gate in way.gates if gate not in ("NORA", "NED"))
            self._ways[at] = way._replace(gates=(*north, *others) if NORTH in way.sites else others)
        self._spread()

    def _unlink(self) -> None:
        """A link is taken out, or one is put in between all sites."""
        chance = self.chance
        if len(self._ways) > 2:
            self._ways.pop(chance.randrange(len(self._ways)))
        else:
            pairs = {way.sites for way in self._ways}
            ends = [(NORTH, MIDDLE), (MIDDLE, SOUTH), (NORTH, SOUTH)]
            gates = {NORTH: self._northern_gates, MIDDLE: ("MIKE",), SOUTH: ("SAM",)}
            for one, other in ends:
                if (one, other) not in pairs:
                    gate = (*gates[one], *gates[other])
                    self._ways.append(Way((one, other), chance.randint(1, 9), gate))
        self._spread()

    def _spread(self) -> None:
        self.directory_changes += 1
        for machine in self.machines:
            self.clock.call_later(self._some_ms(), lambda one=machine: self._learn(one))  # type: ignore[misc]

    def _learn(self, machine: SimManager) -> None:
        document = self._document(self._entrances.get(machine.name, ""))

        def learn() -> None:
            machine.desk.decide(lambda manager: _take_in(manager, document), _raise)

        machine.enter(learn, machine.life)

    def _contradict(self) -> None:
        """Two routers each believe that the other one leads to OMEGA, for a while."""
        if not self._loops:
            self._recost()
            return
        one, other = self.chance.sample(sorted(ROUTERS), 2)
        self._entrances = dict.fromkeys(PLACES, one) | {one: other}
        for machine in self.machines:
            self._learn(machine)
        self._send_to_omega()
        self._send_from_omega()
        self.clock.call_later(CIRCLING_MS, self._mend)

    def _mend(self) -> None:
        """Until then no one learns better, whatever else changes."""
        self._entrances = {}
        self._spread()

    def _send_from_omega(self) -> None:
        """Somebody reads it meanwhile, and the final acknowledgment for OMEGA goes in a circle."""
        reader, omega = self.machines[0], self.machines[-1]
        letter = self._letter(omega, "transactional", self._next_group(), reader)
        letter.positive = True
        if omega.up:
            self.told.letters[letter.name] = letter
            omega.run(
                workload.post_together(omega, self.told, [letter], slowly=False, commits=True)
            )
        if letter.queue != NOWHERE:
            reader.run(workload.receive(reader, self.told, letter.queue, 100))
            workload.wait(reader, self.told, letter.queue, CIRCLING_MS)

    def _send_to_omega(self) -> None:
        sender, omega = self.machines[0], self.machines[-1]
        for kind in ("express", "recoverable", "transactional"):
            letter = self._letter(sender, kind, self._next_group(), omega)
            if not sender.up:
                return
            self.told.letters[letter.name] = letter
            if kind == "transactional":
                sender.run(
                    workload.post_together(sender, self.told, [letter], slowly=False, commits=True)
                )
            else:
                sender.run(workload.post(self.told, letter))

    def _rise(self, machine: SimManager) -> None:
        super()._rise(machine)
        self._learn(machine)

    def _cut_off(self) -> None:
        """Cuts the line between two sites: no machine of one reaches a machine of the other."""
        one, other = self.chance.sample((NORTH, MIDDLE, SOUTH), 2)
        ends = [[m.address for m in self.machines if PLACES[m.name] == s] for s in (one, other)]
        self.cuts += 1
        for here in ends[0]:
            for there in ends[1]:
                self.network.partition(here, there)
        self.clock.call_later(self._some_ms(), lambda: self._heal(*ends))

    def _heal(self, here: list[str], there: list[str]) -> None:
        for one in here:
            for other in there:
                self.network.heal(one, other)

    def _kill_router(self) -> None:
        """The power of a router goes, or that of all routers of a site."""
        name = self.chance.choice(sorted(ROUTERS))
        together = self.chance.random() < 0.3
        for machine in self.machines:
            same = together and machine.name in ROUTERS and PLACES[machine.name] == PLACES[name]
            if machine.name == name or same:
                machine.crash()

    # -- the end

    def _rest(self) -> None:
        self._entrances = {}
        for machine in self.machines:
            self._learn(machine)
        super()._rest()

    def _account(self) -> Account:
        return RoutedAccount(
            self.told,
            self.machines,
            insecure_nacks=self.world.insecure_nacks,
            tight=self.tight,
            routers=ROUTERS,
            ways=self.ways,
        )


def _public_queues(machine: SimManager) -> list[QueuePart]:
    """Those of a machine, as it has entered them itself."""
    known = described(machine.manager.directory.holdings())
    return known.queues


def _take_in(manager: QueueManager, document: Document) -> None:
    manager.directory.take_in(document, prune=True, dry_run=False)


def _raise(answer: Answer) -> None:
    if answer.error is not None:
        raise answer.error


def _guid(name: str) -> str:
    return format_guid(Random(name).randbytes(16))


_ACTS: Acts = (
    *BASE_ACTS,
    (RoutedTrial._recost, 1.5),
    (RoutedTrial._unlink, 0.5),
    (RoutedTrial._contradict, 0.5),
    (RoutedTrial._cut_off, 1),
    (RoutedTrial._kill_router, 1.5),
)
