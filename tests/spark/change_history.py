"""Histories of streams whose surroundings change between and during their runs.

A history is drawn from a seed: a stream of one or two queues into a sink, and what people and
accidents do to it. It drives the real stream reader, client and queue manager in Spark's order of
calls (`model_spark.py`). Whatever happens, it may end in errors, and must keep these promises:

1. No message is gone from its queue that the sink does not have.
2. None is in the sink twice.
3. A run with `availableNow` that ends without an error has all that was there in the sink, and has
   received what it consumed.
4. A stream to which only kills, failing sinks and new limits happen gets on, and empties its
   queues.

What a user does with open eyes is not counted as broken. This is the whole list:

- Home thrown away, or put back from a copy: what was sent since is gone, and what the copy has may
  be read again.
- Queue deleted: what was in it is gone.
- Checkpoint thrown away, reset, put back from a copy or changed for another one: what is still in
  its queue may be read again; a consuming stream leaves there only the batch in flight.
- `startingOffsets=latest`: what was there before may stay unread, in its queue.

With each change of the checkpoint the sinks that know a batch by its number alone get a new name:
another table, another `queryId` in `foreachBatch`. Under the old name a batch of the same number
and size as the last one counts as written.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.errors import PySparkException

from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError
from posthouse.spark import settle
from posthouse.spark.schema import message_schema
from posthouse.spark.source import PosthouseSource
from tests.spark.call_order import AVAILABLE_NOW, ONCE, PROCESSING_TIME
from tests.spark.change_readers import Drivers
from tests.spark.change_servers import Server
from tests.spark.change_sinks import (
    Attempt,
    QueueSink,
    SinkFailed,
    TableSink,
    TwoQueues,
)
from tests.spark.model_spark import IDLE, Checkpoint, MicroBatches, Sink, Steps

QUEUES = ("a", "b")
GROUPS = ("g0", "g1", "g2")
REFUSALS = (QueueError, ClientConnectionError, SinkFailed, PySparkException)
STARTS = 3  # by a supervisor, when a stream ends with an error


class Town(NamedTuple):
    """The queue managers of all histories. `double` has the computer name of `alpha`."""

    alpha: Server
    bravo: Server
    double: Server
    target: Server
    drivers: Drivers


class Where(NamedTuple):
    """A queue."""

    server: str  # by its url: names are not unique
    queue: str


class Broken(AssertionError):
    """A promise that was not kept."""


class History:
    """One history."""

    def __init__(self, seed: int, town: Town, folder: Path) -> None:
        self.seed = seed
        self.title = str(seed)  # of its queues and outputs
        self.random = Random(seed)
        self.town = town
        self.folder = folder
        self.log: list[str] = []
        self.is_gentle = True  # nothing was done that a stream may refuse
        self.is_refused = False  # the last run was
        # the account
        self.sent: dict[bytes, Where] = {}
        self.given_up: set[bytes] = set()
        self.again: Counter[bytes] = Counter()
        self.unread: set[bytes] = set()
        self.table: dict[str, dict[int, list[bytes]]] = {}  # by the name of the output
        self._copies: dict[str, tuple[Path, set[bytes]]] = {}
        self._kept: list[Path] = []  # copies of checkpoints
        # the stream
        draw = self.random
        self.consumes = draw.random() < 0.75
        self.sink = draw.choice(["queue", "queue", "two", "table"])
        self.servers = [town.alpha]
        self.queues: list[str] = list(draw.choice([("a",), ("a", "b"), ("a", "b")]))
        self.pattern = False
        self.limit = draw.choice([0, 1, 2, 3, 5])
        self.starting = draw.choice(["earliest", "earliest", "earliest", "latest", "latest"])
        self.group = "g0"
        self.retry_for = draw.choice(["0", "5"])
        self.names_checkpoint = draw.random() < 0.5
        self.checkpoint = self._new_checkpoint()
        self.output = 0  # which table, which `queryId`

    # -- drawing

    def play(self) -> None:
        """The whole history."""
        self.say(f"{self.sink} consumes={self.consumes} limit={self.limit} {self.starting}")
        self.begin()
        for _ in range(self.random.randrange(1, 5)):
            self.act()
            self.check()
        self.end()

    def begin(self) -> None:
        town = self.town
        town.alpha.empty(*QUEUES)
        town.bravo.empty()
        town.double.empty()
        self.prefix = f"{self.title}-".encode()
        self.targets = [f"t{self.title}-{name}" for name in ("copies", "even", "odd")]
        town.target.create(*self.targets)
        self.send()
        if self.random.random() < 0.7:
            self.run()

    def acts(self) -> list[tuple[int, Callable[[], None]]]:
        """What may happen, and how often beside the others."""
        return [
            (3, self.run),
            (2, self.change_limit),
            (4, self.change_queues),
            (4, self.change_group),
            (2, self.change_managers),
            (2, self.renew_home),
            (1, self.copy_home),
            (2, self.put_home_back),
            (2, self.reset_checkpoint),
            (1, self.copy_checkpoint),
            (1, self.put_checkpoint_back),
            (1, self.take_another_checkpoint),
            (2, self.settle),
            (1, self.second_reader),
            (1, self.make_queue_again),
        ]

    def act(self) -> None:
        """Something happens."""
        weights, calls = zip(*self.acts(), strict=True)
        (act,) = self.random.choices(calls, weights)
        act()
        if self.random.random() < 0.7:
            self.send()
        for _ in range(self.random.choice([0, 1, 1, 2, STARTS])):
            self.run()
        if self.is_refused and self.random.random() < 0.4:
            self.take_another_checkpoint()

    def end(self) -> None:
        """A supervisor starts the stream until it ends well; then its last batch is settled."""
        self.send()
        for _ in range(STARTS):
            if self.run(calm=True):
                break
        else:
            if self.is_gentle:
                raise self.broken("a stream to which nothing was done does not get on")
        self.settle()
        self.check()
        if self.is_gentle and self.consumes and self.is_whole:
            left = set(self.in_queues()) - self.unread
            if left:
                raise self.broken(f"{sorted(left)} are still in their queues")

    @property
    def is_whole(self) -> bool:
        """Whether all queues are read that ever were."""
        return len(self.queues) == 2 or self.pattern

    # -- the account

    def say(self, text: str) -> None:
        self.log.append(text)

    def broken(self, what: str) -> Broken:
        lines = "\n  ".join(self.log)
        return Broken(f"history {self.seed}: {what}\n  {lines}")

    def sources(self) -> list[Server]:
        return [self.town.alpha, self.town.bravo, self.town.double]

    def in_queues(self) -> list[bytes]:
        return [body for server in self.sources() for body in server.bodies(*server.queues())]

    def in_sink(self) -> Counter[bytes]:
        if self.sink == "table":
            batches = (rows for query in self.table.values() for rows in query.values())
            return Counter(body for rows in batches for body in rows)
        return Counter(self.town.target.bodies(*self.targets))

    def check(self) -> None:
        """The first two promises."""
        queued, sink = set(self.in_queues()), self.in_sink()
        lost = self.sent.keys() - queued - sink.keys() - self.given_up
        if lost:
            raise self.broken(f"{sorted(lost)} are neither in their queues nor in the sink")
        twice = [body for body, count in sink.items() if count > 1 + self.again[body]]
        if twice:
            raise self.broken(f"{sorted(twice)} are in the sink twice")

    def may_come_again(self) -> None:
        """What is in a queue and in the sink, when the stream forgets how far it is."""
        self.output += 1
        self._note_again()

    def _note_again(self) -> None:
        sink = self.in_sink()
        for body in set(self.in_queues()) & sink.keys():
            self.again[body] = max(self.again[body], sink[body])

    def send(self) -> None:
        """Some messages to some queues."""
        for server in self.sources():
            if server is not self.town.alpha and server not in self.servers:
                continue
            for queue in server.queues():
                count = self.random.choice([0, 1, 2, 3, 6])
                bodies = [
                    b"%s%d" % (self.prefix, len(self.sent) + number) for number in range(count)
                ]
                if bodies:
                    server.send(queue, bodies)
                self.sent |= dict.fromkeys(bodies, Where(server.url, queue))
        self.say(f"sent up to {len(self.sent)}")

    # -- runs

    def options(self) -> dict[str, str]:
        options = {
            "url": ",".join(server.url for server in self.servers),
            "tokenFile": ",".join(str(server.token_file) for server in self.servers),
            "retryFor": self.retry_for,
            "columns": "body",
            "startingOffsets": self.starting,
        }
        if self.pattern:
            options["queuePattern"] = ".\\private$\\*"
        else:
            options["queue"] = ",".join(f".\\private$\\{queue}" for queue in self.queues)
        if self.limit:
            options["maxMessagesPerTrigger"] = str(self.limit)
        if self.consumes:
            options |= {"consume": "onCommit", "group": self.group}
        if self.names_checkpoint:
            options["checkpoint"] = str(self.checkpoint.path)
        return options

    def to_read(self) -> set[bytes]:
        """What is in the queues that the stream reads."""
        found = set[bytes]()
        for server in self.servers:
            queues = [one for one in server.queues() if self.pattern or one in self.queues]
            found.update(server.bodies(*queues))
        return found

    def started(self, fails_at: int = -1) -> tuple[Any, MicroBatches]:
        """A driver: its reader, and the query around it."""
        source = PosthouseSource(self.options())
        reader = source.streamReader(message_schema(["body"], exact=True))
        self.town.drivers.begun(reader)
        attempt = Attempt(self.checkpoint, reader, str(uuid4()), fails_at)
        return reader, MicroBatches(self.checkpoint, reader, self._sink(attempt))  # type: ignore[arg-type]

    def _sink(self, attempt: Attempt) -> Sink:
        copies, *two = self.targets
        if self.sink == "queue":
            return QueueSink(self.town.target, copies, attempt)
        if self.sink == "two":
            return TwoQueues(self.town.target, (two[0], two[1]), self.output_name, attempt)
        return TableSink(self.table.setdefault(self.output_name, {}), attempt)

    @property
    def output_name(self) -> str:
        return f"output-{self.title}-{self.output}"

    def run(self, *, calm: bool = False, fails_at: int = -1) -> bool:
        """One start of the stream; whether it ended well."""
        draw = self.random
        trigger = AVAILABLE_NOW
        killed_at = -1
        if not calm and fails_at < 0:
            trigger = draw.choice([AVAILABLE_NOW] * 4 + [ONCE, PROCESSING_TIME])
            fails_at = draw.choice([-1, -1, -1, 0, 1, 2])
            killed_at = draw.choice([-1, -1, draw.randrange(40)])
        there = self.to_read()
        if self.starting == "latest":
            self.unread |= there
        self.say(f"run {trigger} queues={self._reading()} fails={fails_at} killed={killed_at}")
        try:
            ended = self._attempt(trigger, fails_at, killed_at, calm=calm)
        except REFUSALS as error:
            self.say(f"  {type(error).__name__}: {str(error)[-300:]}")
            self.is_refused = not isinstance(error, SinkFailed)
            return False
        self.is_refused = False
        if ended and trigger == AVAILABLE_NOW:
            self._check_run(there)
        return ended and trigger == AVAILABLE_NOW

    def _attempt(self, trigger: str, fails_at: int, killed_at: int, *, calm: bool) -> bool:
        """One driver; False: it was killed."""
        drivers, ended = self.town.drivers, False
        reader, query = self.started(fails_at)
        try:
            ended = self._drive(query.run(trigger), killed_at, calm=calm)
        finally:
            (drivers.ended if ended else drivers.killed)(reader)
        if not ended:
            self.say("  killed")
        return ended

    def _check_run(self, there: set[bytes]) -> None:
        """The third promise, of a run that began when these messages were there."""
        sink = self.in_sink()
        left = there - sink.keys() - self.unread - self.given_up
        if left:
            raise self.broken(f"{sorted(left)} were passed over without a word")
        claimed = self.to_read() & there & sink.keys() - self.again.keys()
        if self.consumes and claimed:
            raise self.broken(f"{sorted(claimed)} are in the sink and not received")

    def _reading(self) -> str:
        names = "*" if self.pattern else "+".join(self.queues)
        return f"{names}@{'+'.join(server.name for server in self.servers)}/{self.group}"

    def _drive(self, steps: Steps, killed_at: int, *, calm: bool) -> bool:
        """Goes through the calls of a run; False: the driver was killed."""
        idle = 0
        for number, step in enumerate(steps):
            if number == killed_at:
                steps.close()  # type: ignore[attr-defined]
                return False
            if not calm and self.random.random() < 0.02:
                server = self.random.choice([*self.servers, self.town.target])
                self.say(f"  {server.name} is killed before {step}")
                server.restart()
            if step == IDLE:
                idle += 1
                if idle == 2:
                    break
                self.send()
        return True

    # -- what people do

    def change_limit(self) -> None:
        self.limit = self.random.choice([0, 1, 2, 3, 5])
        self.starting = self.random.choice([self.starting, "earliest", "latest"])
        self.say(f"limit {self.limit}, {self.starting}")

    def change_queues(self) -> None:
        """Another list. One that leaves a queue out may be refused while a batch has it."""
        if self.random.random() < 0.5:
            self.send()
            self.run(fails_at=0)
        self.pattern = self.random.random() < 0.2
        self.queues = list(self.random.choice([("a",), ("b",), ("a", "b")]))
        self.is_gentle = False
        self.say(f"queues {'*' if self.pattern else self.queues}")

    def change_group(self) -> None:
        self.group = self.random.choice([name for name in GROUPS if name != self.group])
        self.starting = self.random.choice([self.starting, "earliest", "earliest"])
        self.is_gentle = False
        self.say(f"group {self.group}, {self.starting}")

    def change_managers(self) -> None:
        town = self.town
        self.servers = self.random.choice(
            [[town.alpha], [town.alpha, town.bravo], [town.bravo], [town.alpha, town.double]]
        )
        for server in self.servers:
            if not server.queues():
                server.create(*QUEUES)
        self.is_gentle = False
        self.say(f"managers {[server.name for server in self.servers]}")

    def renew_home(self) -> None:
        server = self.random.choice(self.servers)
        self.given_up |= set(server.bodies(*server.queues()))
        server.renew()
        self.is_gentle = False
        self.say(f"new home of {server.name}")

    def copy_home(self) -> None:
        server = self.random.choice(self.servers)
        has = set(server.bodies(*server.queues()))
        self._copies[server.url] = (server.copied("copy"), has)
        self.say(f"copy of the home of {server.name}")

    def put_home_back(self) -> None:
        """The copy, if there is one, else one is made first and something happens after it."""
        server = self.random.choice(self.servers)
        if server.url not in self._copies:
            has = set(server.bodies(*server.queues()))
            self._copies[server.url] = (server.copied("copy"), has)
            self.say(f"copy of the home of {server.name}")
            self.send()
            self.run()
        copy, has = self._copies[server.url]
        now = set(server.bodies(*server.queues()))
        self.given_up |= now - has
        sink = self.in_sink()
        for body in has & sink.keys():
            self.again[body] = max(self.again[body], sink[body])
        server.put_back(copy)
        self.is_gentle = False
        self.say(f"home of {server.name} put back")

    def _new_checkpoint(self) -> Checkpoint:
        return Checkpoint(self.folder / f"checkpoint-{uuid4().hex[:8]}")

    def reset_checkpoint(self) -> None:
        """The usual reset: offsets and commits are deleted, the metadata stays."""
        self.may_come_again()
        for part in ("offsets", "commits"):
            shutil.rmtree(self.checkpoint.path / part)
        self.checkpoint = Checkpoint(self.checkpoint.path)
        self.is_gentle = False
        self.say("checkpoint reset")

    def copy_checkpoint(self) -> None:
        copy = self.folder / f"copy-{len(self._kept)}"
        shutil.copytree(self.checkpoint.path, copy)
        self._kept.append(copy)
        self.say("checkpoint copied")

    def put_checkpoint_back(self) -> None:
        if not self._kept:
            self.copy_checkpoint()
            self.send()
            self.run()
        self.may_come_again()
        shutil.rmtree(self.checkpoint.path)
        shutil.copytree(self.random.choice(self._kept), self.checkpoint.path)
        self.is_gentle = False
        self.say("checkpoint put back")

    def take_another_checkpoint(self) -> None:
        """A new folder, or a copy in another place."""
        self.may_come_again()
        copies = self.random.random() < 0.4
        old, self.checkpoint = self.checkpoint, self._new_checkpoint()
        if copies:
            shutil.rmtree(self.checkpoint.path)
            shutil.copytree(old.path, self.checkpoint.path)
        self.is_gentle = False
        self.say("copy of the checkpoint in another folder" if copies else "new checkpoint")

    def settle(self) -> None:
        """The repair tool."""
        urls = ",".join(server.url for server in self.sources())
        files = ",".join(str(server.token_file) for server in self.sources())
        try:
            settled = settle(self.checkpoint.path, urls, files)
            self.say(f"settled {[(one.queue, one.received) for one in settled]}")
        except REFUSALS as error:
            self.say(f"not settled: {str(error)[:200]}")

    def second_reader(self) -> None:
        """A notebook cell run twice: while one reader lives, another with its own checkpoint."""
        if not self.consumes:
            return
        self.say("first of two readers")
        try:
            reader, query = self.started()
        except REFUSALS as error:
            self.say(f"  {str(error)[:200]}")
            return
        steps = query.run(AVAILABLE_NOW)
        first = self.checkpoint
        calls = self.random.randrange(1, 14)
        alive = self._some(steps, calls)
        if calls == 1:  # it has no lease yet: the other one is the only reader
            self._note_again()
        self.checkpoint = self._new_checkpoint()
        self.output += 1
        self.run(calm=True)
        second, self.checkpoint = self.checkpoint, first
        self.output -= 1
        self.say(f"first reader goes on ({alive})")
        alive = alive and self._some(steps, 1000)
        self.town.drivers.killed(reader)
        self.check()
        if self.random.random() < 0.5:
            self.may_come_again()
            self.checkpoint = second
        self.is_gentle = False

    def _some(self, steps: Iterator[str], count: int) -> bool:
        """Some calls of a run; False: it has ended."""
        try:
            for _ in range(count):
                next(steps)
        except StopIteration:
            return False
        except REFUSALS as error:
            self.say(f"  {str(error)[:200]}")
            return False
        return True

    def make_queue_again(self) -> None:
        server = self.random.choice(self.servers)
        queue = self.random.choice(server.queues())
        bodies = set(server.bodies(queue))
        try:
            server.make_again(queue)
        except QueueError as error:
            self.say(f"{queue} of {server.name} is kept: {str(error)[:100]}")
            return
        self.given_up |= bodies
        self.is_gentle = False
        self.say(f"{queue} of {server.name} made again")

    def rename(self) -> None:
        """`posthouse rename`: a stream goes on, wherever it was."""
        server = self.random.choice(self.servers)
        old = server.name
        server.rename(f"NAME{self.random.randrange(10_000)}")
        self.say(f"{old} is called {server.name} now")


class RenamedHistory(History):
    """A history in which queue managers get other names, too."""

    def acts(self) -> list[tuple[int, Callable[[], None]]]:
        return [*super().acts(), (12, self.rename)]


class RenamedAt(History):
    """A stream whose queue manager is renamed before one of the calls of its first run.

    With `kills` the driver is killed for that, else it lives on and meets the new name.
    """

    def __init__(self, seed: int, town: Town, folder: Path, *, at: int, kills: bool) -> None:
        super().__init__(seed, town, folder)
        self.at = at
        self.kills = kills
        self.title = f"{seed}-{at}-{kills}"
        self.is_long_enough = True
        self.starting = "earliest"

    def play(self) -> None:
        self.say(f"{self.sink} consumes={self.consumes} limit={self.limit} at={self.at}")
        self.begin()
        self.check()
        reader, query = self.started()
        try:
            steps = query.run(AVAILABLE_NOW)
            self.is_long_enough = self._some(steps, self.at + 1)
            self.rename()
            if not self.kills:
                self._some(steps, 1000)
        finally:
            self.town.drivers.killed(reader)
        self.check()
        self.end()
