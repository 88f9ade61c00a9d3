"""One seeded trial of several queue managers: work and faults, then rest, then a check.

Everything follows from the seed: `Trial(seed).run()` does the same each time, line by line of
`trial.network.trace`. `posthouse selftest` runs as many as one likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Literal, NamedTuple

from msgspec import structs

from posthouse.model.guids import format_guid
from posthouse.model.message import (
    ACK_BITS,
    ACK_NEG_ARRIVAL,
    ACK_NONE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
)
from posthouse.model.properties import UNLIMITED, QueueProperties
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.sim import workload
from posthouse.sim.balance_check import Account
from posthouse.sim.clock import SimClock
from posthouse.sim.machine import World
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import ADMIN, JOURNALED, NOWHERE, PLAIN, SEQUENCED, Kind, Letter, Told
from posthouse.sim.network import Conditions, SimNetwork
from posthouse.sim.workload import BOSS, home, path

HONEST = Conditions(delay_ms=(1, 5), whole=1.0)
NAMES = ("ALPHA", "BRAVO", "CAROL")
SHORT = BinarySettings(
    initialization_ms=3_000,
    cleanup_ms=15_000,
    cleanup_routing_ms=6_000,
    retry_connect_ms=250,
    retry_connect_max_ms=15_000,
    ack_wait_ms=1_000,
    ack_wait_min_ms=1_000,
    ack_wait_max_ms=6_000,
    recoverable_ack_min_ms=25,
    recoverable_ack_max_ms=6_000,
    resend_short_ms=1_500,
    resend_medium_ms=15_000,
    resend_long_ms=90_000,
    resend_final_ms=1_080_000,
    order_ack_ms=25,
    order_ack_max_ms=500,
    final_ack_look_ms=15_000,
    connect_timeout_ms=1_000,
    refusal_linger_ms=50,
)
SHORT_PING = PingSettings(response_ms=50)
SHORT_SRMP = SrmpSettings(
    retransmission_ms=1_000,
    retransmission_max_ms=15_000,
    resend_short_ms=1_500,
    resend_medium_ms=15_000,
    resend_long_ms=90_000,
    resend_final_ms=1_080_000,
    cleanup_ms=15_000,
    connect_timeout_ms=1_000,
    response_ms=3_000,
    idle_ms=6_000,
    request_ms=6_000,
)
TIGHT_KIB = {"binary": 8, "srmp": 20}  # the quota of some queues in some trials
SHORTER = 20  # the timers above are this many times shorter than the document's


Protocol = Literal["binary", "srmp"]
"""What the messages of a trial travel by; with `srmp` some still go over the binary protocol."""

PROTOCOLS: tuple[Protocol, ...] = ("binary", "srmp")


class Failed(AssertionError):
    """A trial did not end as promised; its text states how to run it again."""


class Summary(NamedTuple):
    """What a trial was like."""

    seed: int
    managers: int
    sent: int
    arrived: int
    crashes: int
    cuts: int  # connections broken, partitions
    connections: int
    simulated_s: int
    forged: int = 0  # messages that a stranger made up
    anonymous: int = 0  # those of them that readers got
    moves: int = 0  # changes of address

    def figures(self) -> dict[str, int]:
        """What can be added up over trials."""
        return {name: value for name, value in self._asdict().items() if name != "seed"}


class Trial:
    """Two or three queue managers, from the first message to the last acknowledgment."""

    def __init__(self, seed: int, protocol: Protocol = "binary") -> None:
        self.seed = seed
        self.protocol = protocol
        self.chance = chance = Random(seed)
        self.short = chance.random() < 0.7
        self.pace_ms = 1_000 // SHORTER if self.short else 1_000
        self.clock = SimClock()
        self.network = SimNetwork(chance.getrandbits(32), self.clock, HONEST)
        binary = self._settings()
        self.world = World(
            self.clock, self.network, chance, binary, insecure_nacks=chance.random() < 0.5
        )
        self.world.ping = self.ping
        if protocol == "srmp":
            self.world.srmp = self._srmp_settings()
            self.world.receipt_ms = (25, 500) if self.short else (500, 10_000)
        self.told = Told()
        self.cuts = 0
        self.storming = False
        self._groups = self._named = 0
        self._two_names = chance.random() < 0.3
        self.tight = frozenset(JOURNALED if chance.random() < 0.2 else ())
        self.machines = [
            SimManager(self.world, name, f"10.0.0.{at + 1}", chance.getrandbits(32))
            for at, name in enumerate(self._names())
        ]
        for machine in self.machines:
            machine.on_fall = self._fallen
            self._furnish(machine)
        self._introduce()

    @property
    def way(self) -> str:
        """The name of these trials in `posthouse selftest`."""
        return self.protocol

    def _names(self) -> tuple[str, ...]:
        """The machines of the trial."""
        return NAMES[: self.chance.choice((2, 2, 3))]

    def _settings(self) -> BinarySettings:
        chance = self.chance
        window = chance.choice((1, 3, 8, 64, 64))
        self.ping = structs.replace(
            SHORT_PING if self.short else PingSettings(), first=chance.random() < 0.2
        )
        return structs.replace(
            SHORT if self.short else BinarySettings(),
            window=window,
            # Who waits for a place for half an hour may find the history of duplicates forgotten.
            sessions_max=chance.choice((10_000, 10_000, 10_000, 1 if self.short else 10_000)),
            send_batch=chance.choice((1, 4 << 10, 4 << 20)),
            receive_ahead=chance.choice((4 << 10, 8 << 20)),
        )

    def _srmp_settings(self) -> SrmpSettings:
        chance = self.chance
        return structs.replace(
            SHORT_SRMP if self.short else SrmpSettings(),
            pipeline=chance.choice((1, 1, 4)),
            send_batch_messages=chance.choice((1, 3, 32)),
            pending_max=chance.choice((1, 64)),
        )

    def _furnish(self, machine: SimManager) -> None:
        for name in (ADMIN, *PLAIN, *SEQUENCED):
            properties = QueueProperties(
                transactional=name in SEQUENCED,
                journaling=name in JOURNALED,
                quota_kib=TIGHT_KIB[self.protocol] if name in self.tight else UNLIMITED,
            )
            where = path(name, public=self._is_public(name))
            machine.now(lambda m, w=where, p=properties: m.queues.create_queue(w, p, BOSS))  # type: ignore[misc]

    def _is_public(self, queue: str) -> bool:
        """Whether the queue is in the directory; never in trials without one."""
        return False

    def _introduce(self) -> None:
        """Where the others are, as if there had been sessions before: for names by GUID."""
        for one in self.machines:
            for other in self.machines:
                if one is not other:
                    guid, address = other.manager.machine.identifier, other.address
                    one.now(lambda m, g=guid, a=address: m.transfer.reached(g, a, 1801))  # type: ignore[misc]

    # -- a whole trial

    def run(self) -> Summary:
        """Work and faults, then rest, then the account."""
        try:
            self._storm()
            self._rest()
            faults = self._account().check()
        except Failed:
            raise
        except Exception as error:
            raise Failed(self._words([f"{type(error).__name__}: {error}"])) from error
        if faults:
            raise Failed(self._words(faults))
        return self._summary()

    def _account(self) -> Account:
        return Account(
            self.told, self.machines, insecure_nacks=self.world.insecure_nacks, tight=self.tight
        )

    def _words(self, faults: list[str]) -> str:
        shown = "\n  ".join(faults[:10])
        return (
            f"seed {self.seed}, after {self.clock.now_ms} ms: {len(faults)} faults\n  {shown}\n"
            f"Replay it: posthouse selftest --protocol {self.way}"
            f" --first {self.seed} --seeds 1"
        )

    def _summary(self) -> Summary:
        seen = {name for names in self.told.places.values() for name in names}
        return Summary(
            self.seed,
            len(self.machines),
            len(self.told.letters),
            len(seen & self.told.letters.keys()),
            sum(machine.crashes for machine in self.machines),
            self.cuts,
            sum(line.event == "opened" for line in self.network.trace),
            self.clock.now_ms // 1000,
        )

    # -- work and faults

    def _storm(self) -> None:
        chance, clock = self.chance, self.clock
        self._set_weather()
        steps = chance.randint(20, 50)
        for _ in range(steps):
            self._step()
            clock.advance(int(chance.expovariate(1.0) * self.pace_ms * chance.choice((1, 1, 5))))

    def _set_weather(self) -> None:
        chance = self.chance
        wild = chance.random()
        self.storming = True
        self.network.conditions = Conditions(
            delay_ms=chance.choice(((1, 5), (1, 40), (1, 400))),
            connect_timeout_ms=self.world.binary.connect_timeout_ms,
            whole=chance.choice((1.0, 0.9, 0.6)),
            datagram_loss=0.2,
            datagram_double=0.2,
            stream_reset=chance.choice((0.0, 0.0, 0.01, 0.05)) * wild,
            stream_cut=chance.choice((0.0, 0.0, 0.01, 0.03)) * wild,
        )
        self.world.chances = {
            "crash": chance.choice((0.0, 0.0, 0.002, 0.01)) * wild,
            "unnamed": 0.1 * wild,
        }
        for machine in self.machines:
            machine.in_crash_mood = chance.random() < 0.7

    def _step(self) -> None:
        acts = self._acts()
        (act,) = self.chance.choices([act for act, _ in acts], [weight for _, weight in acts])
        act(self)

    def _acts(self) -> Acts:
        """What may happen, and how likely each is."""
        return BASE_ACTS

    def _machine(self) -> SimManager:
        return self.chance.choice(self.machines)

    # what applications do

    def _sender(self) -> SimManager:
        """Whose application sends something."""
        return self._machine()

    def _send(self) -> None:
        sender = self._sender()
        for _ in range(self.chance.choice((1, 1, 3, 8))):
            kind: Kind = self.chance.choice(("express", "recoverable", "recoverable"))
            letter = self._letter(sender, kind, self._next_group())
            if sender.up:
                self.told.letters[letter.name] = letter
                sender.run(workload.post(self.told, letter))

    def _send_together(self) -> None:
        sender, group, chance = self._sender(), self._next_group(), self.chance
        letters = [
            self._letter(sender, "transactional", group) for _ in range(chance.choice((1, 2, 5)))
        ]
        slowly, commits = chance.random() < 0.3, chance.random() < 0.9
        if sender.up:
            self.told.letters.update({letter.name: letter for letter in letters})
            sender.run(
                workload.post_together(sender, self.told, letters, slowly=slowly, commits=commits)
            )

    def _send_many(self) -> None:
        """Messages that are all alike, up to two windows of them: they travel in runs."""
        sender, chance, group = self._sender(), self.chance, self._next_group()
        kind: Kind = chance.choice(("express", "recoverable", "transactional"))
        first = self._letter(sender, kind, group)
        letters = [
            replace(first, name=f"{first.name}.{number}")
            for number in range(chance.randint(2, 130))
        ]
        if not sender.up:
            return
        self.told.letters.update({letter.name: letter for letter in letters})
        if kind == "transactional":
            errand = workload.post_together(sender, self.told, letters, slowly=False, commits=True)
        else:
            errand = workload.post_many(self.told, letters)
        sender.run(errand)

    def _next_group(self) -> int:
        self._groups += 1
        return self._groups

    def _letter(
        self, sender: SimManager, kind: Kind, group: int, target: SimManager | None = None
    ) -> Letter:
        chance = self.chance
        if target is None:
            target = chance.choice(self._targets(sender))
        queue = chance.choice(SEQUENCED if kind == "transactional" else PLAIN)
        if chance.random() < 0.06 and self._is_answered(kind):
            other = chance.choice((NOWHERE, *SEQUENCED, *PLAIN))
            queue = other if self._is_told(kind, target, other) else queue
        self._named += 1  # chance alone gives two messages of some seed one name
        name = f"{self._named + chance.random():.6f}"
        name = f"{sender.name[0]}{target.name[0]} {queue} {kind[0]}{name}"
        letter = Letter(
            name=name,
            kind=kind,
            sender=sender.name,
            target=target.name,
            queue=queue,
            format_name=self._name_of(target, queue),
            body=chance.randbytes(chance.choice((0, 10, 200, 200, 6_000))),
            group=group,
            positive=chance.random() < 0.3,
            negative=chance.random() < 0.3,
            priority=0 if kind == "transactional" else chance.choice((3, 3, 3, 0, 7)),
        )
        self._ask_for_more(letter, sender)
        return letter

    def _is_answered(self, kind: Kind) -> bool:
        """Whether what is turned away ends; those of strangers wait for their time (decision 8)."""
        return kind != "transactional" or self.protocol == "srmp" or self.world.insecure_nacks

    def _is_told(self, kind: Kind, target: SimManager, queue: str) -> bool:
        """Of queues that are posted to, some have names of the binary protocol as well."""
        if kind != "transactional" or self.world.insecure_nacks:
            return True
        return not self._two_names and self._name_of(target, queue).startswith("DIRECT=HTTP:")

    def _targets(self, sender: SimManager) -> list[SimManager]:
        """Whom a machine sends to."""
        return [machine for machine in self.machines if machine is not sender]

    def _name_of(self, target: SimManager, queue: str) -> str:
        """A direct name, or one by GUID; one and the same for a queue in most trials."""
        style = self.chance.random() if self._two_names else Random(f"{self.seed}{queue}").random()
        if self.protocol == "srmp":
            if style < 0.8:
                host = target.address if style < 0.4 else target.name
                return f"DIRECT=HTTP://{host}/msmq/private$/{queue}"
            style = (style - 0.8) * 5
        if style < 0.4:
            return f"DIRECT=TCP:{target.address}\\private$\\{queue}"
        if style < 0.8 or queue == NOWHERE:
            return f"DIRECT=OS:{target.name}\\private$\\{queue}"
        return private_name(target, queue)

    def _ask_for_more(self, letter: Letter, sender: SimManager) -> None:
        chance = self.chance
        if chance.random() < 0.3:
            letter.acks = chance.choice(
                (ACK_BITS, ACK_POS_ARRIVAL, ACK_POS_RECEIVE, ACK_NEG_ARRIVAL, ACK_NONE)
            )
            letter.administration = self._administration(letter, sender)
        if chance.random() < 0.1:
            letter.reach_s, letter.negative = self._some_s(), True
        if chance.random() < 0.05:
            letter.live_s, letter.negative = self._some_s(), True

    def _administration(self, letter: Letter, sender: SimManager) -> str:
        if letter.posted:
            return f"DIRECT=HTTP://{sender.address}/msmq/private$/{ADMIN}"
        return f"DIRECT=TCP:{sender.address}\\private$\\{ADMIN}"

    def _some_s(self) -> int:
        return max(self.chance.choice((1, 10, 60)) * self.pace_ms // 1000, 1)

    def _read(self) -> None:
        machine, chance = self._machine(), self.chance
        queue = chance.choice((*PLAIN, *SEQUENCED))
        count, commits = chance.randint(1, 4), chance.random() < 0.7
        if chance.random() < 0.3:
            outcome = chance.choice(("take", "reject", "return"))
            machine.run(workload.receive_in_two_steps(machine, self.told, queue, outcome))
        elif queue in SEQUENCED and chance.random() < 0.7:
            errand = workload.receive_together(machine, self.told, queue, count, commits=commits)
            machine.run(errand)
        else:
            machine.run(workload.receive(machine, self.told, queue, count))

    def _wait(self) -> None:
        queue = self.chance.choice((*PLAIN, *SEQUENCED))
        workload.wait(self._machine(), self.told, queue, self._some_ms())

    def _purge(self) -> None:
        queue = self.chance.choice((*PLAIN, *SEQUENCED))
        self._machine().run(workload.purge(self.told, queue))

    # what goes wrong

    def _some_ms(self) -> int:
        """A while that is too long for some timers."""
        return int(self.chance.expovariate(1.0) * self.pace_ms * self.chance.choice((1, 10, 60)))

    def _crash(self) -> None:
        machine = self._machine()
        if self.chance.random() < 0.5:
            machine.crash()
        elif machine.up:
            machine.disk.lose_power_at(self.chance.randint(1, 40))

    def _fallen(self, machine: SimManager) -> None:
        self.told.fell(machine.name)
        wait_ms = self._some_ms() if self.storming else self.pace_ms
        self.clock.call_later(wait_ms, lambda: self._rise(machine))

    def _rise(self, machine: SimManager) -> None:
        if not machine.up:
            machine.boot()

    def _restart(self) -> None:
        machine = self._machine()
        if machine.up:
            machine.stop()
            self.clock.call_later(300 + self._some_ms(), lambda: self._rise(machine))

    def _cut(self) -> None:
        connections = self.network.connections()
        if connections:
            self.cuts += 1
            connection = self.chance.choice(connections)
            if self.chance.random() < 0.5:
                self.network.reset(connection)
            else:
                self.network.cut(connection, one_way=self.chance.random() < 0.5)

    def _part(self) -> None:
        one, other = self.chance.sample([machine.address for machine in self.machines], 2)
        self.cuts += 1
        self.network.partition(one, other, one_way=self.chance.random() < 0.3)
        self.clock.call_later(self._some_ms(), lambda: self.network.heal(one, other))

    def _pause(self) -> None:
        machine = self._machine()

        def pause() -> None:
            queues = machine.manager.queues.outgoing_queues()
            if queues:
                number = self.chance.choice([queue.number for queue in queues])
                machine.desk.decide(
                    lambda m: m.transfer.pause_queue(m.queues.numbered(number)), _nothing
                )
                machine.later(self._some_ms(), lambda: self._resume(machine, number))

        machine.enter(pause, machine.life)

    def _resume(self, machine: SimManager, number: int) -> None:
        machine.desk.decide(lambda m: m.transfer.resume_queue(m.queues.numbered(number)), _nothing)

    def _go_offline(self) -> None:
        machine = self._machine()

        def go() -> None:
            machine.desk.decide(lambda m: m.transfer.take_offline(), _nothing)
            machine.later(
                self._some_ms(),
                lambda: machine.desk.decide(lambda m: m.transfer.bring_online(), _nothing),
            )

        machine.enter(go, machine.life)

    def _set_clock(self) -> None:
        """Somebody sets the date; timers do not mind."""
        self.clock.step_utc(self.chance.choice((-3600, -60, 60, 3600)))

    # -- rest

    def _rest(self) -> None:
        """The network is whole again, everybody is up, and reads until nothing is left."""
        self.storming = False
        self.network.conditions = HONEST
        self.world.chances = {}
        for machine in self.machines:
            machine.in_crash_mood = False
            for other in self.machines:
                self.network.heal(machine.address, other.address)
        self.clock.advance(100 * self.pace_ms)
        for machine in self.machines:
            self._rise(machine)
        self._settle()

    def _settle(self) -> None:
        """Until all messages are where they belong, and all sessions have ended."""
        binary = self.world.binary
        longest_ms = 3 * (binary.resend_ms[-1] + binary.retry_connect_max_ms)
        until_ms, wait_ms = self.clock.now_ms + longest_ms, self.pace_ms
        while self._unsettled():
            if self.clock.now_ms > until_ms:
                raise Failed(self._words(["something does not settle", *self._unsettled()]))
            self._read_everything()
            self._resume_everything()
            self.clock.advance(wait_ms)
            wait_ms = min(wait_ms * 2, self._patience_ms(longest_ms))
        cleanup_ms = max(binary.cleanup_ms, binary.ack_wait_max_ms * 2)
        if self.world.srmp is not None:
            cleanup_ms = max(cleanup_ms, self.world.srmp.cleanup_ms, self.world.srmp.idle_ms)
        self.clock.advance(3 * cleanup_ms)
        if self._unsettled() or any(map(self._is_connected, self.machines)):
            raise Failed(self._words(["a session stays", *self._unsettled()]))

    def _is_connected(self, machine: SimManager) -> bool:
        """Whether it has connections that it needs no more."""
        return machine.connected()

    def _patience_ms(self, longest_ms: int) -> int:
        """Between two looks. What a full queue turns away over HTTP comes again when it was read,
        a few at a time."""
        srmp = self.world.srmp
        return srmp.retransmission_max_ms if srmp and self.tight else longest_ms // 50

    def _unsettled(self) -> list[str]:
        down = [f"{machine.name} is down" for machine in self.machines if not machine.up]
        return down + [
            f"{queue.name} of {machine.name} has {queue.state.count}"
            for machine in self.machines
            for queue in machine.manager.queues.all()
            if queue.state.count and self._must_be_empty(machine, queue.number)
        ]

    def _must_be_empty(self, machine: SimManager, number: int) -> bool:
        queue = machine.manager.queues.numbered(number)
        return queue.outgoing is not None or queue.name.split("\\")[-1] in (*PLAIN, *SEQUENCED)

    def _read_everything(self) -> None:
        for machine in self.machines:
            for queue in (*PLAIN, *SEQUENCED):
                machine.run(workload.receive(machine, self.told, queue, 100))

    def _resume_everything(self) -> None:
        """What a crash kept from going on."""
        for machine in self.machines:
            for queue in machine.manager.queues.outgoing_queues():
                if queue.definition.on_hold:
                    self._resume(machine, queue.number)


Acts = tuple[tuple[Callable[[Any], None], float], ...]
BASE_ACTS: Acts = (
    (Trial._send, 8),
    (Trial._send_together, 8),
    (Trial._send_many, 1),
    (Trial._read, 8),
    (Trial._wait, 3),
    (Trial._purge, 0.3),
    (Trial._crash, 1.5),
    (Trial._restart, 0.5),
    (Trial._cut, 2),
    (Trial._part, 1.5),
    (Trial._pause, 0.7),
    (Trial._go_offline, 0.4),
    (Trial._set_clock, 0.2),
)


def private_name(machine: SimManager, queue: str) -> str:
    """The name of a queue by the GUID of its machine."""
    number = home(machine.manager, queue).number
    return f"PRIVATE={format_guid(machine.manager.machine.identifier)}\\{number:08x}"


def _nothing(answer: object) -> None:
    """This answer is not waited for."""
