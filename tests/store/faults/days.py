"""Busy days: seeded, random work on a queue manager, for runs that nobody wrote down."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from posthouse.model.errors import QueueError
from tests.engine.rig import MOVE, RECEIVE
from tests.engine.staging import QUERY, append, begin, key_of, publish
from tests.store.faults.group_steps import GROUP_WORKS
from tests.store.faults.script import ABROAD, body
from tests.store.faults.world import SEGMENT_SIZE, World

PLAIN = ("north", "south")
TRANSACTIONAL = ("east", "west")
SIZES = (0, 10, 200, 200, 900, SEGMENT_SIZE + 100)

Work = Callable[["Day"], None]


class Day:
    """One world and the dice that are thrown for it."""

    def __init__(self, world: World, chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.refusals = 0

    def work(self, steps: int) -> None:
        """This many random steps; the engine may refuse some, as queues may be empty or missing."""
        for _ in range(steps):
            try:
                self.chance.choice(WORKS)(self)
            except QueueError:
                self.refusals += 1
            self.world.tidy(self.chance.choice((0, 0, 1, 1, 3, 50)))

    def content(self) -> bytes:
        return body(f"{self.chance.randrange(10**6)}", self.chance.choice(SIZES))

    def name(self) -> str:
        return self.chance.choice((*PLAIN, *TRANSACTIONAL))


def create(day: Day) -> None:
    name = day.name()
    day.world.create(
        name, transactional=name in TRANSACTIONAL, journaling=day.chance.random() < 0.3
    )


def send(day: Day) -> None:
    day.world.send(
        day.chance.choice(PLAIN),
        day.content(),
        recoverable=day.chance.random() < 0.7,
        priority=day.chance.randrange(8),
        time_to_be_received=day.chance.choice((0xFFFFFFFF, 0xFFFFFFFF, 20)),
        negative_journaling_requested=day.chance.random() < 0.2,
        positive_journaling_requested=day.chance.random() < 0.2,
    )


def receive(day: Day) -> None:
    source = day.world.open(day.chance.choice((*PLAIN, *TRANSACTIONAL)), RECEIVE)
    count = day.chance.randint(1, 4)
    day.world.run(lambda m: m.messages.dequeue_messages(source, count))
    day.world.close(source)


def transact(day: Day) -> None:
    world, chance = day.world, day.chance
    tx = world.begin(f"{chance.randrange(10**9)}")
    for _ in range(chance.randint(1, 4)):
        world.send(chance.choice((*TRANSACTIONAL, ABROAD)), day.content(), tx=tx)
    source = world.open(chance.choice(TRANSACTIONAL), RECEIVE)
    world.run(lambda m: m.messages.dequeue_messages(source, chance.randint(0, 2), tx))
    end = chance.choice(("commit", "commit", "abort", "prepare", "leave"))
    if end == "prepare":
        world.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    elif end != "leave":
        getattr(world, end)(tx)
    world.close(source)


def settle(day: Day) -> None:
    prepared = [transaction.identifier for transaction in day.world.manager.transactions.in_doubt()]
    end = day.chance.choice(("transaction_commit", "transaction_abort"))
    if prepared:
        day.world.run(lambda m: getattr(m.transactions, end)(prepared[0]))


def move(day: Day) -> None:
    name = day.name()
    source = day.world.open(name, RECEIVE)
    read = day.world.peek(source).read
    target = day.world.open(f"{name};{day.chance.choice(('a', 'b'))}", MOVE)
    day.world.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    day.world.close(source)
    day.world.close(target)


def purge(day: Day) -> None:
    source = day.world.open(day.name(), RECEIVE)
    if day.chance.random() < 0.3:
        day.world.receive(source, two_phase=True)
    day.world.run(lambda m: m.queues.purge_queue(source))
    day.world.close(source)


def delete(day: Day) -> None:
    name = day.chance.choice(PLAIN)
    day.world.run(lambda m: m.queues.delete_queue(f".\\private$\\{name}", day.world.admin))


def stage_rows(day: Day) -> None:
    """A stage of the next batch, perhaps one that is there already; some are left unfinished."""
    world, chance = day.world, day.chance
    upload = begin(world, key_of(batch_of(world), chance.randrange(2), chance.randrange(2)))
    for _ in range(chance.randint(1, 2)):
        rows = [day.content() for _ in range(chance.randint(1, 4))]
        queue = chance.choice((*PLAIN, *TRANSACTIONAL, ABROAD))
        expiry = chance.choice((0xFFFFFFFF, 0xFFFFFFFF, 20))
        append(world, upload, [(queue, rows)], time_to_be_received=expiry)
    end = chance.choice(("finish", "finish", "finish", "abort", "leave"))
    if end != "leave":
        world.run(lambda m: getattr(m.stages, end)(upload))


def batch_of(world: World) -> int:
    """The batch that comes next."""
    known = world.manager.stages.queries.get(QUERY)
    return known.batch + 1 if known else 0


def publish_rows(day: Day) -> None:
    """The next batch, or once more the last one."""
    world, batch = day.world, batch_of(day.world)
    keys = sorted(k for k in world.manager.stages.stages if k.batch == batch)
    chosen = {key.partition: key.attempt for key in keys if day.chance.random() < 0.8}
    again = day.chance.random() < 0.2 and batch > 0
    publish(world, batch - 1 if again else batch, *chosen.items())


def drop_rows(day: Day) -> None:
    world = day.world
    world.run(lambda m: m.stages.discard(QUERY, batch_of(world), world.admin))


def wait(day: Day) -> None:
    day.world.advance(day.chance.choice((1, 1, 30)))


def relabel(day: Day) -> None:
    label = f"{day.chance.randrange(100)}"
    name = f".\\private$\\{day.name()}"
    day.world.run(lambda m: m.queues.set_queue(name, day.world.admin, label=label))


def restart(day: Day) -> None:
    day.world.restart()


def kill(day: Day) -> None:
    day.world.kill()
    day.world.check()


WORKS: tuple[Work, ...] = (
    *[create] * 2,
    *[send] * 8,
    *[receive] * 7,
    *[transact] * 6,
    *[settle] * 3,
    *[stage_rows] * 4,
    *[publish_rows] * 2,
    drop_rows,
    *[move] * 3,
    purge,
    delete,
    wait,
    relabel,
    *GROUP_WORKS,
    restart,
    kill,
)
