"""`directory`: names and next hops must cost the same in a small and in a large enterprise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Column, Goal, Outcome, Row, Table, hundredths, tenths, thousands
from benchmarks.home import Home
from benchmarks.meters import Stopwatch
from benchmarks.run import Bar, Run
from posthouse.directory.base import equals
from posthouse.directory.objects import DirectoryObject, Queue, QueueManager, RoutingLink, Site
from posthouse.engine.manager import QueueManager as Engine
from posthouse.model.guids import format_guid
from posthouse.protocols.binary.next_hop_lookup import destination_of, get_next_hops

NAME = "directory"
GOAL_RATIO = 1.5  # for a thousand times the machines and ten times the queues
SITES, ROUTERS = 5, 2  # routing servers, all of them gates, in each site
BATCH = 1_000
COLUMNS = [
    Column("lookup", "look-up"),
    Column("machines", "machines", thousands),
    Column("queues", "public queues", thousands),
    Column("cpu_us", "CPU µs each", tenths),
    Column("ratio", "times the smallest", hundredths),
]


class Size(NamedTuple):
    """An enterprise."""

    machines: int
    queues: int


# Names are remembered once they have been read; this many queues are more than that.
SIZES = (Size(10, 10_000), Size(10_000, 10_000), Size(10_000, 100_000))
SIZES_QUICK = (Size(10, 300), Size(50, 600))


class Enterprise:
    """A queue manager whose directory lists this many machines and queues."""

    def __init__(self, home: Home, size: Size, bar: Bar) -> None:
        self.home, self.size = home, size
        self._drawn = Random(8)
        self.sites = [self._drawn.randbytes(16) for _ in range(SITES)]
        self.machines = [self._drawn.randbytes(16) for _ in range(size.machines)]
        self.queues = [self._drawn.randbytes(16) for _ in range(size.queues)]
        self._fill(bar)

    def _fill(self, bar: Bar) -> None:
        values, done = list(self._objects()), 0
        total = len(values)
        while values:
            some, values = values[:BATCH], values[BATCH:]
            self.home.driver.run(lambda manager, some=some: _enter(manager, some))  # type: ignore[misc]
            done += len(some)
            bar.fill(done, total)
        bar.fill(0, 0)

    def _objects(self) -> Iterator[DirectoryObject]:
        for at, site in enumerate(self.sites):
            yield Site(identifier=site, name=f"site{at}")
        gates = tuple(self.machines[: SITES * ROUTERS])
        for at in range(SITES - 1):
            yield RoutingLink(
                identifier=self._drawn.randbytes(16),
                site1_identifier=self.sites[at],
                site2_identifier=self.sites[at + 1],
                actual_cost=at + 1,
                site_gate_identifier_list=gates,
            )
        for at, guid in enumerate(self.machines):
            yield QueueManager(
                identifier=guid,
                computer_name=f"MACHINE{at}",
                site_identifier_list=(self.sites[at % SITES],),
                routing_server=at < SITES * ROUTERS,
                addresses=(f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}",),
            )
        yield QueueManager(
            identifier=self.home.manager.machine.identifier,
            computer_name=self.home.manager.machine.settings.computer_name,
            site_identifier_list=(self.sites[0],),
        )
        for at, guid in enumerate(self.queues):
            owner = at % len(self.machines)
            yield Queue(
                identifier=guid,
                pathname=f"MACHINE{owner}\\queue{at}",
                queue_manager_identifier=self.machines[owner],
            )

    # -- look-ups

    def owner(self) -> object:
        """`PUBLIC=`: whose queue it is."""
        name = f"PUBLIC={format_guid(self._drawn.choice(self.queues))}"
        return destination_of(self.home.manager, name)

    def path(self) -> object:
        """`HOST\\name`: which queue it is."""
        at = self._drawn.randrange(len(self.queues))
        pathname = f"MACHINE{at % len(self.machines)}\\queue{at}"
        manager = self.home.manager
        return manager.directory.service.known(
            Queue, equals("pathname", pathname), manager.machine.now_ms
        ).value

    def hops(self) -> object:
        """Get Next Hops: whom messages for a machine are handed to."""
        return get_next_hops(self.home.manager, self._drawn.choice(self.machines))


LOOKUPS: dict[str, Callable[[Enterprise], object]] = {
    "PUBLIC= to its machine": Enterprise.owner,
    "HOST\\name to its queue": Enterprise.path,
    "next hops": Enterprise.hops,
}


def _enter(manager: Engine, values: list[DirectoryObject]) -> None:
    service, core = manager.directory.service, manager.ledger
    for value in values:
        if value.identifier == core.guid:
            service.write_directory(value, core.now_ms, core.utc)
        else:
            service.create_directory_object(value, core.now_ms, core.utc)


def measure(run: Run) -> Outcome:
    """All sizes side by side, each look-up in every round."""
    sizes, count = SIZES_QUICK if run.quick else SIZES, run.dose(5_000, 200)
    figures: dict[tuple[str, Size], list[float]] = {}
    with ExitStack() as stack:
        bar = stack.enter_context(run.bar(NAME, len(sizes) * (run.rounds + 1)))
        enterprises = []
        for size in sizes:
            bar.step(f"filling {size.machines:,} machines, {size.queues:,} queues")
            home = Home(stack.enter_context(run.place.fresh(NAME)))
            enterprises.append(Enterprise(home, size, bar))
        for _ in range(run.rounds):
            for enterprise in enterprises:
                bar.step(f"{enterprise.size.machines:,} machines")
                for name, lookup in LOOKUPS.items():
                    cost = _cost(enterprise, lookup, count)
                    figures.setdefault((name, enterprise.size), []).append(cost)
        for enterprise in enterprises:
            enterprise.home.close()
    table = Table(NAME, "lookups", "directory: one look-up, at random", COLUMNS)
    table.rows = [
        _row(name, size, figures[name, size], figures[name, sizes[0]])
        for name in LOOKUPS
        for size in sizes
    ]
    return Outcome([table], [_goal(name, sizes, figures) for name in LOOKUPS])


def _cost(enterprise: Enterprise, lookup: Callable[[Enterprise], object], count: int) -> float:
    assert lookup(enterprise)  # what is remembered is remembered by now
    with Stopwatch() as watch:
        for _ in range(count):
            lookup(enterprise)
    return watch.cpu_s / count * 1e6


def _row(name: str, size: Size, costs: list[float], smallest: list[float]) -> Row:
    return {
        "lookup": name,
        "machines": size.machines,
        "queues": size.queues,
        "cpu_us": median(costs),
        "ratio": _ratio(costs, smallest),
    }


def _ratio(costs: list[float], smallest: list[float]) -> float:
    return median(a / b for a, b in zip(costs, smallest, strict=True))


def _goal(name: str, sizes: tuple[Size, ...], figures: dict[tuple[str, Size], list[float]]) -> Goal:
    largest = sizes[-1]
    return Goal(
        NAME,
        f"{name}: cost with {largest.machines:,} machines and {largest.queues:,} public queues,"
        f" times that with {sizes[0].machines:,} and {sizes[0].queues:,}",
        _ratio(figures[name, largest], figures[name, sizes[0]]),
        GOAL_RATIO,
        at_most=True,
        condition="flat",
    )
