"""The engine against a plain model, with crashes between any two steps and inside them.

Hypothesis writes programs of the rules below. Each step runs on the engine and on the model;
answers and everything that can be seen must agree after each. To replay a failure, run the
program that hypothesis prints; the lines between its steps say what each of them came to.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from tests.engine.model.actions import (
    JOURNALING,
    READABLE,
    ROOTS,
    SEEKS,
    SUBQUEUES,
    SYSTEM,
    among,
    any_letter,
    is_available,
    is_locked,
    is_one_of_several,
    is_plain,
    is_transactional,
)
from tests.engine.model.far_rules import FarRules
from tests.engine.model.parts import OUT, Descriptor, Transaction
from tests.engine.model.tally import TALLY

SOAK = os.environ.get("POSTHOUSE_SOAK") == "1"
EXAMPLES, STEPS = (3000, 200) if SOAK else (80, 60)

EVERYTHING = frozenset({"arrival", "receive", "no_arrival", "no_receive", "dead", "journal"})
ASKS = [
    frozenset(),
    frozenset(),
    frozenset({"dead"}),
    frozenset({"journal"}),
    frozenset({"arrival", "no_receive"}),
    frozenset({"receive", "no_arrival", "dead"}),
    EVERYTHING,
]
names = st.sampled_from(list(ROOTS))
numbers = st.integers(0, 255)
callers = st.sampled_from(["admin", "admin", "bob"])
timeouts = st.sampled_from([2_000, 30_000, 60_000, None])
seconds = st.sampled_from([None, None, 10, 2, 90, 0])
sizes = st.sampled_from([0, 200, 700])
asks = st.sampled_from(ASKS)
applications = st.sampled_from(["", "", "b", "u"])
policies = st.sampled_from(["random", "random", "nothing", "everything"])


class Machine(FarRules):
    """The rules."""

    @initialize(
        seed=st.integers(0, 1 << 16),
        machine_quota_kib=st.sampled_from([None, 24]),
        tidy=st.booleans(),
        stock=st.integers(0, 3),
    )
    def start(
        self,
        seed: int,
        machine_quota_kib: int | None,
        tidy: bool,
        stock: int,
    ) -> None:
        self.begin(seed, machine_quota_kib)
        self.checking = False
        for name in ROOTS:
            self.create(name, journaling=name in JOURNALING)
        self.open_outgoing()
        for number in range(stock):
            self._stock(number)
        self.checking, self.tidy_each_turn = True, tidy
        self.check()

    def _stock(self, number: int) -> None:
        """A letter in every queue to begin with."""
        tx = self.begin_one()
        assert tx is not None
        for name, transactional in ROOTS.items():
            order = self.order(
                priority=3 + number % 2,
                express=not transactional and number == 2,
                asks=among(ASKS, number),
                admin="adm",
                to_be_received_s=among([None, 20, None], number),
            )
            self.send_one("send at the start", name, order, tx=tx if transactional else None)
        self.commit(tx.name)

    # -- queues

    @rule(
        what=st.sampled_from(
            ["create", "delete", "delete", "quota", "journal", "rights", "rights", "pause"]
        ),
        which=numbers,
        name=names,
        yes=st.booleans(),
        kib=st.sampled_from([1, 2, 3, None]),
    )
    def configure(self, what: str, which: int, name: str, yes: bool, kib: int | None) -> None:
        if what == "create":
            missing = [root for root in ROOTS if root not in self.model.queues]
            self.create(among(missing or list(ROOTS), which), journaling=yes)
        elif what == "delete":
            busy = self._busy_roots()
            if yes or busy:
                self.delete(among(busy, which) if busy else name)
        elif what == "quota":
            self.set_quota(name, kib)
        elif what == "journal":
            self.set_journal(among(["b", "u"], which), 1 if yes else None, journaling=kib != 3)
        elif what == "rights":
            mine = [d for d in self.descriptors if (d.caller, d.access) == ("bob", "receive")]
            if mine and which % 4:
                self._withdraw(among(mine, which // 4))
            else:
                self.set_rights(name, readable=yes)
        else:
            self.pause(on_hold=yes)

    def _withdraw(self, descriptor: Descriptor) -> None:
        """A right that is gone ends what it allowed, on open descriptors too."""
        self.set_rights(descriptor.name.partition(";")[0], readable=False)
        if self.live(descriptor):
            self.peek_at("peek", descriptor.name, "receive", "bob", 0)

    def _busy_roots(self) -> list[str]:
        """Queues that transactions or readers have a hand in."""
        used = {
            operation.queue.name.partition(";")[0]
            for tx in self.model.transactions.values()
            for operation in tx.operations
        }
        used |= {descriptor.name.partition(";")[0] for _, descriptor in self._held()}
        return [name for name in ROOTS if name in used and name in self.model.queues]

    @rule(which=numbers)
    def close(self, which: int) -> None:
        everything = [*self.descriptors, *self.stale, *self.stale]
        if everything:
            self.close_one(among(everything, which))

    @precondition(lambda self: self.stale)
    @rule(which=numbers)
    def use_stale(self, which: int) -> None:
        descriptor = among(self.stale, which)
        self.perform(
            "use of a deleted queue",
            f"receive from {descriptor.name}, which is gone",
            lambda m: m.messages.dequeue_message(descriptor.handle, timeout_ms=0),
            lambda: self.model.dequeue(descriptor, timeout_ms=0),
        )

    # -- sending

    @rule(
        to=st.sampled_from(["a", "a", "b", "b", "adm", OUT, "t"]),
        express=st.booleans(),
        priority=st.integers(0, 7),
        ends=seconds,
        asks=asks,
        size=sizes,
        caller=callers,
        application=applications,
        count=st.integers(1, 3),
        which=numbers,
    )
    def send(
        self,
        to: str,
        express: bool,
        priority: int,
        ends: int | None,
        asks: frozenset[str],
        size: int,
        caller: str,
        application: str,
        count: int,
        which: int,
    ) -> None:
        to = self.awaited(which, to, (False,))
        for number in range(count):
            order = self.order(
                express=express,
                priority=(priority + 3 * number) % 8,
                to_be_received_s=ends,
                to_reach_queue_s=5 if size else 100_000,
                asks=asks,
                size=size,
                admin="adm" if asks else "",
                application=application if "dead" in asks else "",
            )
            delivery = "express" if express else "recoverable"
            self.send_one(f"send, {delivery}, priority {order.priority}", to, order, caller)

    @rule(
        to=st.sampled_from(["t", "t", "u", "u", OUT, "a"]),
        which=numbers,
        ends=seconds,
        asks=asks,
        size=sizes,
        application=applications,
        count=st.integers(1, 3),
    )
    def send_in_transaction(
        self,
        to: str,
        which: int,
        ends: int | None,
        asks: frozenset[str],
        size: int,
        application: str,
        count: int,
    ) -> None:
        tx = self.active(which)
        to = self.awaited(which, to, (True,))
        for _ in range(count if tx is not None else 0):
            order = self.order(
                priority=which % 8,
                to_be_received_s=ends,
                asks=asks,
                size=size,
                admin="adm" if asks else "",
                application=application if "dead" in asks else "",
            )
            self.send_one("send, transactional", to, order, tx=tx)

    @rule(
        to=st.sampled_from(["a", "b"]),
        count=st.integers(2, 4),
        express=st.booleans(),
        size=sizes,
        plain=st.booleans(),
    )
    def send_packets(self, to: str, count: int, express: bool, size: int, plain: bool) -> None:
        wishes = frozenset[str]() if plain else frozenset({"journal"})
        orders = [self.order(express=express, size=size, asks=wishes) for _ in range(count)]
        self.send_packets_to(to, orders)

    # -- reading

    @rule(which=numbers, caller=callers, two_phase=st.booleans(), spare=st.integers(0, 1))
    def receive(self, which: int, caller: str, two_phase: bool, spare: int) -> None:
        name = self.source(which, is_available)
        word = "begin a read" if two_phase else "receive"
        self.dequeue(word, name, caller, two_phase=two_phase, spare=spare)

    @rule(which=numbers, tx=numbers, two_phase=st.booleans())
    def receive_in_transaction(self, which: int, tx: int, two_phase: bool) -> None:
        name = self.source(which, is_transactional)
        transaction = self.active(tx)
        if transaction is not None:
            self.dequeue("receive, transactional", name, tx=transaction, two_phase=two_phase)

    @rule(which=numbers, count=st.integers(1, 4), tx=st.integers(0, 3))
    def receive_many(self, which: int, count: int, tx: int) -> None:
        transaction = self.active(tx) if tx else None
        wanted = is_transactional if transaction else is_available
        self.dequeue_many(self.source(which, wanted), count, transaction)

    @rule(which=numbers, caller=callers, peek_only=st.booleans())
    def peek(self, which: int, caller: str, peek_only: bool) -> None:
        name = self.source(which, is_available)
        self.peek_at("peek", name, "peek" if peek_only else "receive", caller, 0)

    @rule(
        which=numbers,
        caller=callers,
        timeout_ms=timeouts,
        how=st.sampled_from(["peek", "receive", "receive", "begin", "transaction"]),
        tx=numbers,
        count=st.integers(1, 3),
    )
    def wait(
        self,
        which: int,
        caller: str,
        timeout_ms: int | None,
        how: str,
        tx: int,
        count: int,
    ) -> None:
        """One to three readers of a queue; every other one of several only peeks."""
        name = self.barren(which, [*ROOTS, *ROOTS, *READABLE])
        if how == "transaction":
            name = self.barren(which, ["t", "u", "t;s", *SYSTEM])
        for number in range(count):
            if how == "peek" or number == 1:
                self.peek_at("wait to peek", name, "receive", caller, timeout_ms)
                continue
            transaction = self.active(tx) if how == "transaction" else None
            self.dequeue(
                f"wait to receive{', transactional' if transaction else ''}",
                name,
                caller,
                timeout_ms=timeout_ms,
                tx=transaction,
                two_phase=how == "begin",
                spare=number,
            )

    @precondition(lambda self: any(self.model.waiters()))
    @rule(which=numbers, known=st.integers(0, 4))
    def cancel_wait(self, which: int, known: int) -> None:
        waiter = among(list(self.model.waiters()), which)
        self.cancel(waiter, waiter.tag if known else "nobody")

    @precondition(lambda self: self.descriptors)
    @rule(
        which=numbers,
        at=numbers,
        how=st.sampled_from(["ack", "nack", "reject"]),
        count=st.integers(1, 2),
        again=st.booleans(),
    )
    def end_read(self, which: int, at: int, how: str, count: int, again: bool) -> None:
        """Ends of reads under way, and now and then of some that are not."""
        for number in range(count):
            held = self._held()
            if not self.descriptors or not (held or which % 4 == 0):
                return
            if held and which % 5:
                letter, descriptor = among(held, which // 5 + number)
                place, lookup_id = letter.place, self.identifiers.of_place[letter.place]
            else:
                descriptor = among(self.descriptors, which)
                place, lookup_id = self.place(at, descriptor.queue)
            self.end_dequeue(descriptor, place, lookup_id, how)
            if again and self.live(descriptor) and descriptor.access == "receive":
                self.dequeue("begin a read", descriptor.name, descriptor.caller, two_phase=True)

    def _held(self) -> list[tuple[Any, Descriptor]]:
        """What somebody has read and not ended."""
        return [
            (letter, letter.lock.holder)
            for queue in self.model.queues.values()
            for letter in queue.letters
            if letter.lock is not None and letter.lock.holder in self.descriptors
        ]

    @rule(
        which=numbers,
        at=numbers,
        seek=st.sampled_from(list(SEEKS)),
        how=st.sampled_from(["peek", "peek", "receive", "begin", "transaction"]),
        tx=numbers,
    )
    def lookup(self, which: int, at: int, seek: str, how: str, tx: int) -> None:
        transaction = self.active(tx) if how == "transaction" else None
        name = self.source(which, is_transactional if transaction else is_one_of_several)
        self.look_up(name, at, seek, how, transaction)

    @rule(
        which=numbers,
        how=st.sampled_from(
            ["open", "peek", "peek", "next", "next", "receive", "close", "exhaust", "exhaust"]
        ),
        timeout_ms=st.sampled_from([0, 0, 0, 2_000, None]),
        tx=st.integers(0, 5),
        caller=callers,
    )
    def use_cursor(
        self, which: int, how: str, timeout_ms: int | None, tx: int, caller: str
    ) -> None:
        if not self.cursors or (how == "open" and len(self.cursors) < 4):
            self.open_cursor_on(self.source(which, is_plain), caller)
        if not self.cursors or how == "open":
            return
        cursor = self.ready(which, "read" if how == "next" else "unread")
        if how == "exhaust":
            self.exhaust(cursor, timeout_ms or 30_000)
        elif how == "close":
            self.close_the_cursor(cursor)
        elif how == "peek":
            self.peek_through(cursor, timeout_ms)
        elif how == "next":
            self.peek_next_through(cursor, timeout_ms)
        else:
            transaction = self.active(tx) if tx == 5 else None
            self.dequeue(
                "receive through a cursor",
                cursor.descriptor.name,
                timeout_ms=timeout_ms,
                cursor=cursor,
                tx=transaction,
            )

    # -- moves and purges

    @rule(which=numbers, at=numbers, to=numbers, tx=st.integers(0, 3), caller=callers)
    def move(self, which: int, at: int, to: int, tx: int, caller: str) -> None:
        transaction = self.active(tx) if tx > 1 else None
        name = self.source(which, is_transactional if transaction else is_available)
        root = name.partition(";")[0]
        family = [root, *(other for other in SUBQUEUES if other.startswith(f"{root};"))]
        target = among(list(ROOTS) if to % 6 == 5 else family, to // 6)
        self.move_one(name, at, target, caller, transaction)

    @rule(which=numbers, what=st.sampled_from(["any", "locked", "locked", "out"]))
    def purge(self, which: int, what: str) -> None:
        name = (
            OUT
            if what == "out"
            else self.source(which, is_locked if what == "locked" else any_letter)
        )
        self.purge_one(name)

    # -- constellations that chance alone seldom brings about

    @rule(what=st.sampled_from(["send", "move", "journal", "rights"]), which=numbers, size=sizes)
    def contrive(self, what: str, which: int, size: int) -> None:
        name = among(["t", "u"], which)
        if what == "send":
            self._delete_target_of_send(name, size)
        elif what == "move":
            self._delete_target_of_move(name, among(["u", "t"], which), which)
        elif what == "journal":
            self._fill_journal(name)
        else:
            self._withdraw_from_waiting(among(["a", "b"], which), size)

    def _delete_target_of_send(self, name: str, size: int) -> None:
        tx = self.begin_one()
        for asks in (frozenset({"dead"}), EVERYTHING):
            if tx is not None:
                order = self.order(asks=asks, admin="adm", size=size, application="u")
                self.send_one("send, transactional", name, order, tx=tx)
        self._delete_and_commit(name, tx)

    def _delete_target_of_move(self, source: str, target: str, which: int) -> None:
        self._deliver(source, self.order())
        tx = self.begin_one()
        if tx is not None:
            self.move_one(source, which // 8 * 8, target, "admin", tx)
        self._delete_and_commit(target, tx)

    def _delete_and_commit(self, name: str, tx: Transaction | None) -> None:
        self.delete(name)
        if self.live(tx) and tx is not None:
            self.commit(tx.name)
        self.create(name, journaling=name in JOURNALING)

    def _deliver(self, name: str, order: Any) -> None:
        tx = self.begin_one()
        if tx is not None:
            self.send_one("send, transactional", name, order, tx=tx)
        if self.live(tx) and tx is not None:
            self.commit(tx.name)

    def _fill_journal(self, name: str) -> None:
        self.set_journal(name, 1, journaling=True)
        for _ in range(2):
            self._deliver(name, self.order(size=700))
        self.dequeue_many(name, 4, None)

    def _withdraw_from_waiting(self, name: str, size: int) -> None:
        self.set_rights(name, readable=True)
        self.purge_one(name)
        self.dequeue("wait to receive", name, "bob", timeout_ms=60_000)
        self.set_rights(name, readable=False)
        self.send_one("send, recoverable, priority 3", name, self.order(size=size))

    # -- transactions

    @precondition(lambda self: len(self.model.transactions) < 4)
    @rule()
    def begin_transaction(self) -> None:
        self.begin_one()

    @precondition(lambda self: self.model.transactions)
    @rule(which=numbers, commits=st.integers(0, 2), known=st.integers(0, 9))
    def end_transaction(self, which: int, commits: int, known: int) -> None:
        tx: Transaction = among(list(self.model.transactions.values()), which)
        (self.commit if commits else self.abort)(tx.name if known else "T0")

    @precondition(lambda self: self.model.transactions)
    @rule(which=numbers, single_phase=st.integers(0, 4))
    def prepare(self, which: int, single_phase: int) -> None:
        tx: Transaction = among(list(self.model.transactions.values()), which)
        self.prepare_one(tx.name, single_phase=single_phase == 0)

    # -- time

    @rule(ms=st.sampled_from([500, 1_000, 11_000, 61_000]), until=st.sampled_from(["", "due", "-"]))
    def advance(self, ms: int, until: str) -> None:
        """By some time, or until something is just due, or just not yet."""
        TALLY.ran("let time pass")
        self.close_turn()
        due = self.model.next_due_ms()
        if until and due is not None:
            ms = max(0, due - self.world.clock.now_ms - (until == "-"))
            TALLY.ran("let time pass until something is due")
        self.world.clock.advance(ms)
        self.idle_turn()

    @rule(seconds=st.sampled_from([-40, -3, 3, 40]))
    def step_utc(self, seconds: int) -> None:
        TALLY.ran("set the date")
        self.close_turn()
        self.world.clock.step_utc(seconds)
        self.idle_turn()

    # -- turns, upkeep and crashes

    @rule(turns=st.integers(0, 4), calls=st.integers(0, 4))
    def pace(self, turns: int, calls: int) -> None:
        """The next calls share a turn; it is not synced, nor are those behind it."""
        TALLY.ran("share a turn")
        self.batch = calls
        TALLY.ran("hold back syncs")
        self.lag = turns

    @rule(
        policy=policies,
        which=numbers,
        size=sizes,
        asks=asks,
        ends=st.sampled_from([None, 0]),
        sure=st.integers(0, 2),
    )
    def crash_in_a_busy_turn(
        self,
        policy: Any,
        which: int,
        size: int,
        asks: frozenset[str],
        ends: int | None,
        sure: int,
    ) -> None:
        """Several steps are written together, and the power goes before their sync."""
        if sure:
            return
        TALLY.ran("crash in a busy turn")
        self.close_turn()
        self.batch, self.policy = 100, policy
        tx = self.active(which)
        for to in (["t", "a", "u", "b"] * 2)[which % 4 :][:4]:
            order = self.order(size=size, asks=asks, admin="adm", to_be_received_s=ends)
            delivery = tx if ROOTS[to] else None
            self.send_one("send, in a busy turn", to, order, tx=delivery)
        if tx is not None:
            (self.abort if which % 5 == 4 else self.commit)(tx.name)
        self.dequeue("receive", self.source(which, is_available))
        self.cut_off = True
        self.close_turn()

    @rule(checkpoint=st.booleans())
    def tidy_up(self, checkpoint: bool) -> None:
        TALLY.ran("upkeep with a checkpoint" if checkpoint else "upkeep")
        self.close_turn()
        self.upkeep(checkpoint)

    @rule(policy=policies, again_at=st.sampled_from([0, 0, 0, 1, 3, 6]), sure=st.integers(0, 2))
    def lose_power(self, policy: Any, again_at: int, sure: int) -> None:
        if not sure:
            TALLY.ran("crash")
            self.crash(policy, again_at=again_at)

    @precondition(lambda self: not self.power_planned)
    @rule(policy=policies, calls=st.integers(1, 12))
    def lose_power_soon(self, policy: Any, calls: int) -> None:
        TALLY.ran("crash inside a step")
        self.plan_power_loss(policy, calls)

    @rule(sure=st.integers(0, 1))
    def restart_cleanly(self, sure: int) -> None:
        if sure:
            TALLY.ran("stop and start")
            self.restart()

    def teardown(self) -> None:
        """Whatever was decided last is let out and compared too."""
        if getattr(self, "sound", False):
            self.sync()


@pytest.mark.timeout(0)
def test_the_engine_does_what_the_model_does() -> None:
    profile = settings.get_profile("soak" if SOAK else "default")
    dose = settings(profile, max_examples=EXAMPLES, stateful_step_count=STEPS)
    run_state_machine_as_test(Machine, settings=dose)
    print("\n".join(TALLY.table()))
