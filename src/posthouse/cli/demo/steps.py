"""The steps of `posthouse demo` (README.md).

Shops send orders to ALPHA, which is killed meanwhile. The first orders go to BETA in transactions
that both share, the others over the binary protocol; the warehouse receives them there. Orders by
mail go to BETA over HTTP, claims to a public queue of their directory. Offers that are not received
become dead letters. Spark reads the warehouse's journal and the dead letters, where it is
installed. Then both managers' books are looked at.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from posthouse.api.types import BooksListJson
from posthouse.cli.demo.http_orders import Posted, post
from posthouse.cli.demo.jobs import Serviced, submit_job, what_became
from posthouse.cli.demo.pipeline import Piped, Wanted, run_pipeline
from posthouse.cli.demo.public_queue import Named, claim
from posthouse.cli.demo.server import DemoServer
from posthouse.client.connect import connect
from posthouse.client.errors import TransactionAborted
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.client.message import Message
from posthouse.client.packets import Draft
from posthouse.model.errors import IoTimeout
from posthouse.runtime.home import real_clock

SHOPS: Final = ("north", "east", "south", "west")
ORDERS: Final = r".\private$\orders"
WAREHOUSE: Final = r".\private$\warehouse"
OFFERS: Final = r".\private$\offers"
DEAD_LETTERS: Final = r".\system$;deadletter"

CUSTOMERS: Final = 97
SALE_MAX: Final = 50  # orders in one transaction of a shop
SALES_MIN: Final = 40  # transactions, so that there is a middle to be killed in
BATCH: Final = 200  # orders in one transaction after the shops
SHARED: Final = 2  # transactions that both managers share
SHARED_BATCH: Final = 20  # orders in each of them
DELIVERY_MS: Final = 60_000
EXPIRED, PURGED = 3, 2  # offers
LOOK_S: Final = 0.05
PATIENCE_S: Final = 10.0
RECONNECT_S: Final = 60.0


class Audience(NamedTuple):
    """Who looks on."""

    tell: Callable[[str], None]
    progress: Callable[[str, int, int], None]  # what, done, total


class Arrived(NamedTuple):
    """What the warehouse got from one shop."""

    shop: str
    orders: int
    amount: int
    in_order: bool


@dataclass
class Report:
    """What the demonstration saw."""

    home: Path
    orders: int
    addresses: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    acknowledged_before_kill: int = 0
    in_flight_at_kill: int = 0
    begun_again: int = 0
    restart_ms: int = 0
    sent_per_second: int = 0
    shared_transactions: int = 0
    undone: bool = False
    over_the_wire: int = 0
    delivered: int = 0  # of those, as the sender's books have it
    delivered_per_second: int = 0
    received_per_second: int = 0
    arrived: list[Arrived] = field(default_factory=list)
    posted: Posted | None = None
    named: Named | None = None
    journaled: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    spark: bool = True  # whether there is to be a pipeline
    serviced: Serviced | None = None  # a job, by Spark
    piped: Piped | None = None
    books: dict[str, BooksListJson] = field(default_factory=dict)
    stopped_well: bool = False

    @property
    def in_order(self) -> bool:
        """Every order arrived once, and in the order in which its shop sent it."""
        whole = sum(each.orders for each in self.arrived) == self.orders == self.journaled
        return whole and all(each.in_order for each in self.arrived)

    @property
    def balanced(self) -> bool:
        """The books of both managers account for every message."""
        books = len(self.books) == 2 and all(each.balanced for each in self.books.values())
        return books and self.delivered == self.over_the_wire > 0

    @property
    def sound(self) -> bool:
        """A kill met work, nothing was lost or came twice, and the books balance."""
        dead = sum(self.dead_letters.values()) == EXPIRED + PURGED
        shown = self.in_flight_at_kill > 0 and self.undone and dead and self.piped_well
        posted = self.posted is not None and self.posted.well
        named = self.named is not None and self.named.well
        return shown and posted and named and self.in_order and self.balanced and self.stopped_well

    @property
    def piped_well(self) -> bool:
        """Spark saw what the warehouse received and what became dead letters, no more, no less."""
        if self.piped is None:
            return not self.spark
        amount = sum(each.amount for each in self.arrived)
        whole = self.piped.archived == self.piped.orders == self.orders
        if self.serviced is None or self.serviced.outcome != "finished":
            return False
        whole = whole and self.serviced.orders == self.orders
        return whole and self.piped.amount == amount and self.piped.reasons == self.dead_letters


def demonstrate(home: Path, orders: int, audience: Audience, *, spark: bool) -> Report:
    """The whole of it, in a folder of its own; the servers are gone when it returns."""
    report = Report(home, orders, spark=spark)
    with ExitStack() as running:
        servers = [running.enter_context(DemoServer(home, name)) for name in ("ALPHA", "BETA")]
        for server in servers:
            server.launch()
        for server in servers:
            server.ready()
            audience.tell(f"{server.name} serves at {server.address} from {server.home}")
        sell(servers[0], report, audience)
        report.addresses = {server.name: server.address for server in servers}
        alpha, beta = (running.enter_context(connected(server)) for server in servers)
        befriend(alpha, beta, report.addresses)
        hand_over(alpha, beta, report)
        deliver(alpha, servers[1].binary, report, audience)
        receive_all(beta, report, audience)
        report.posted = post(
            alpha, beta, servers[1].http, orders, partial(audience.progress, "posting")
        )
        report.named = claim(alpha, beta, servers[1].binary, orders)
        let_offers_die(beta, report)
        if spark:
            pipe(beta, servers[1].address, report, audience)
        report.journaled = alpha.queue(ORDERS).journal.count()
        report.books = {client.name: client.books() for client in (alpha, beta)}
        for client in (alpha, beta):
            client.close()
        report.stopped_well = [server.stop() for server in servers] == [0, 0]
    return report


def connected(server: DemoServer) -> QueueManagerClient:
    """A session over the control socket, which stays where it is when ports change."""
    return connect(server.home, reconnect=RECONNECT_S, name="posthouse demo")


def _per_second(count: int, since_ms: int) -> int:
    return count * 1000 // max(real_clock()[0] - since_ms, 1)


# -- the shops, and the kill


class Market:
    """Shops that sell at the same time, each with a session of its own.

    Their answers often come together, so a kill may find that everybody had theirs. Such a kill
    shows little: there is another one.
    """

    def __init__(self, server: DemoServer, orders: int) -> None:
        self.acknowledged = 0
        self.acknowledged_before_kill = 0
        self.in_flight_at_kill = 0
        self.begun_again = 0
        self.killed = threading.Event()
        self._server = server
        self._orders = orders
        self._sale = max(1, min(SALE_MAX, orders // SALES_MIN))
        self._asking = [False] * len(SHOPS)  # a transaction that is not answered
        self._lock = threading.Lock()

    def sell(self, shop: int, client: QueueManagerClient) -> None:
        """One shop's orders. What a broken session took with it is done again."""
        queue, numbers = client.queue(ORDERS), range(shop, self._orders, len(SHOPS))
        while numbers:
            sale = numbers[: self._sale]
            self._asking[shop] = True
            try:
                with client.transaction() as tx:
                    queue.send_many(map(order, sale), tx=tx)
            except TransactionAborted:
                with self._lock:
                    self.begun_again += 1
            else:
                self._asking[shop] = False
                self._acknowledge(len(sale))
                numbers = numbers[self._sale :]

    def _acknowledge(self, count: int) -> None:
        with self._lock:
            self.acknowledged += count
            due = self.acknowledged * 2 >= self._orders and not self.in_flight_at_kill
            if due and not self.killed.is_set() and any(self._asking):
                self._server.kill()
                self.in_flight_at_kill = sum(self._asking)
                self.acknowledged_before_kill = self.acknowledged
                self.killed.set()


def order(number: int) -> Draft:
    """An order of the shop whose turn it is."""
    body = {
        "order": number,
        "shop": SHOPS[number % len(SHOPS)],
        "customer": f"customer {number * 31 % CUSTOMERS}",
        "amount": 5 + number * 7919 % 495,
    }
    return Draft(body, label=f"order {number}")


def sell(server: DemoServer, report: Report, audience: Audience) -> None:
    """All shops send; in the middle the server is killed and started again."""
    market, began_ms = Market(server, report.orders), real_clock()[0]
    # Sessions end before the threads are waited for, so that an error stops every shop.
    with ThreadPoolExecutor(len(SHOPS)) as threads, ExitStack() as sessions:
        clients = [sessions.enter_context(connected(server)) for _ in SHOPS]
        clients[0].create_queue(ORDERS, transactional=True, journal=True, label="New orders")
        shops = [threads.submit(market.sell, *each) for each in enumerate(clients)]
        for _ in _watched(shops):
            audience.progress("sending", market.acknowledged, report.orders)
            if market.killed.is_set():
                _start_again(server, market, report, audience)
                market.killed.clear()
    audience.progress("sending", market.acknowledged, report.orders)
    report.sent_per_second = _per_second(report.orders, began_ms)
    report.begun_again = market.begun_again


def _watched(shops: list[Future[None]]) -> Iterator[None]:
    """Until all of them are done; raises what one of them raised."""
    waiting = set(shops)
    while waiting:
        done, waiting = wait(waiting, LOOK_S)
        for shop in done:
            shop.result()
        yield


def _start_again(server: DemoServer, market: Market, report: Report, audience: Audience) -> None:
    report.kills += 1
    report.acknowledged_before_kill = market.acknowledged_before_kill
    report.in_flight_at_kill = market.in_flight_at_kill
    audience.tell(
        f"kill -9 of {server.name}: {report.acknowledged_before_kill:,} orders acknowledged,"
        f" {report.in_flight_at_kill} transactions in flight"
    )
    began_ms = real_clock()[0]
    server.launch()
    server.ready()
    report.restart_ms = real_clock()[0] - began_ms
    audience.tell(f"{server.name} serves again, at {server.address}; its clients go on")


# -- transactions over both managers


def befriend(alpha: QueueManagerClient, beta: QueueManagerClient, at: dict[str, str]) -> None:
    """Each trusts the other with transactions, under the key that the first makes."""
    peer = {"name": beta.name, "guid": beta.guid, "url": at[beta.name]}
    key = alpha.call("POST", "/peers", peer)["key"]
    peer = {"name": alpha.name, "guid": alpha.guid, "url": at[alpha.name], "key": key}
    beta.call("POST", "/peers", peer)


class Carrier:
    """Takes orders from one manager to the other, in transactions that both share."""

    def __init__(self, alpha: QueueManagerClient, beta: QueueManagerClient) -> None:
        self.alpha, self.beta = alpha, beta
        self.orders = alpha.queue(ORDERS)
        self.warehouse = beta.create_queue(
            WAREHOUSE, transactional=True, journal=True, label="To be packed"
        )

    def carry(self, *, think_better: bool = False) -> int:
        """One transaction; returns how many orders it carried."""
        tx = self.alpha.transaction()
        with tx:
            part = tx.enlist(self.beta)
            found = self.orders.receive_many(SHARED_BATCH, 0, tx=tx)
            self.warehouse.send_many(map(_again, found), tx=part)
            if think_better:
                tx.abort()
        return len(found)


def _again(message: Message) -> Draft:
    return Draft(message.body, label=message.label, correlation=message.id)


def hand_over(alpha: QueueManagerClient, beta: QueueManagerClient, report: Report) -> None:
    """The first orders, from ALPHA to BETA; one attempt is given up, and leaves no trace."""
    carrier = Carrier(alpha, beta)
    carrier.carry(think_better=True)
    left = (carrier.orders.count(), carrier.warehouse.count())
    report.undone = left == (report.orders, 0) and carrier.orders.peek(0).abort_count == 1
    while report.shared_transactions < SHARED:
        carrier.carry()
        report.shared_transactions += 1


# -- messages between the managers


def deliver(alpha: QueueManagerClient, binary: str, report: Report, audience: Audience) -> None:
    """All other orders: received and sent on in one transaction, delivered by the managers."""
    orders, began_ms = alpha.queue(ORDERS), real_clock()[0]
    wire = alpha.queue(rf"DIRECT=TCP:{binary}\{WAREHOUSE[2:]}")
    total = orders.count()
    while report.over_the_wire < total:
        with alpha.transaction() as tx:
            found = orders.receive_many(BATCH, 0, tx=tx)
            wire.send_many(map(_again, found), tx=tx)
        report.over_the_wire += len(found)
        _look_at_delivery(wire, total, report, audience)
    while report.delivered < total and real_clock()[0] - began_ms < DELIVERY_MS:
        threading.Event().wait(LOOK_S)
        _look_at_delivery(wire, total, report, audience)
    report.delivered_per_second = _per_second(report.delivered, began_ms)


def _look_at_delivery(wire: Queue, total: int, report: Report, audience: Audience) -> None:
    """What BETA has acknowledged."""
    outgoing = wire.properties().outgoing
    report.delivered = outgoing.delivered if outgoing else 0
    audience.progress("delivering", report.delivered, total)


# -- the warehouse


def receive_all(beta: QueueManagerClient, report: Report, audience: Audience) -> None:
    """Receives in transactions, and looks whether everything is there."""
    queue, began_ms, found = beta.queue(WAREHOUSE), real_clock()[0], list[dict[str, Any]]()
    while len(found) < report.orders and (batch := _received(beta, queue)):
        found += [message.json() for message in batch]
        audience.progress("receiving", len(found), report.orders)
    report.received_per_second = _per_second(len(found), began_ms)
    report.arrived = [_from_shop(shop, found, report.orders) for shop in range(len(SHOPS))]


def _received(beta: QueueManagerClient, queue: Queue) -> list[Message]:
    try:
        with beta.transaction() as tx:
            return queue.receive_many(BATCH, PATIENCE_S, tx=tx)
    except IoTimeout:  # some are missing, which the report shows
        return []


def _from_shop(shop: int, found: list[dict[str, Any]], orders: int) -> Arrived:
    its = [each for each in found if each["order"] % len(SHOPS) == shop]
    in_order = [each["order"] for each in its] == list(range(shop, orders, len(SHOPS)))
    return Arrived(SHOPS[shop], len(its), sum(each["amount"] for each in its), in_order)


# -- dead letters


def let_offers_die(client: QueueManagerClient, report: Report) -> None:
    """Offers that are not taken: some expire, some are purged; all ask to be kept."""
    offers = client.create_queue(OFFERS, label="Offers of the day")
    offers.send_many(["offer"] * EXPIRED, recoverable=True, dead_letter=True, time_to_be_received=0)
    offers.send_many(["offer"] * PURGED, recoverable=True, dead_letter=True)
    offers.purge()
    letters = client.queue(DEAD_LETTERS).browse()
    report.dead_letters = dict(Counter(letter.class_name for letter in letters))


# -- Spark


def pipe(beta: QueueManagerClient, url: str, report: Report, audience: Audience) -> None:
    """A job for Spark; what the warehouse received, from its journal into Parquet; dead letters."""
    number = submit_job(beta)
    wanted = Wanted(report.home, url, f"{WAREHOUSE};journal", DEAD_LETTERS)
    report.piped = run_pipeline(
        beta, wanted, lambda done, total: audience.progress("Spark", done, total)
    )
    report.serviced = what_became(beta, number)
