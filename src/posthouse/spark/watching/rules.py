"""Rules of an operator: what raises an alarm, each with its own figures.

A rule looks at what is seen, and keeps no more than its own time of it. Each subject (a queue, a
cluster, a request) raises one alarm; it is repeated while it lasts, and one more follows when it is
over, for conditions that can be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, Protocol

from posthouse.spark.watching.observations import Alarm, Look, QueueSample, SeenMessage

REPEAT_S: Final = 3600.0
KEPT_MAX: Final = 100_000
"""What one rule remembers of requests, senders or receipts; the oldest go first."""
JOURNAL: Final = ";journal"
_DEAD: Final = (";deadletter", ";deadxact")


class Rule(Protocol):
    """One rule."""

    name: str

    def look(self, look: Look) -> Iterator[Alarm]:
        """What this look adds."""


class Condition:
    """Alarms about something that lasts: raised once, repeated in time, ended."""

    def __init__(self, name: str, repeat_s: float = REPEAT_S) -> None:
        self.name = name
        self._repeat_s = repeat_s
        self._raised: dict[str, float] = {}

    def update(
        self, now_s: float, subject: str, holds: bool, text: str, figure: float
    ) -> Iterator[Alarm]:
        """The state of a subject now."""
        raised = self._raised.get(subject)
        if holds and (raised is None or now_s - raised >= self._repeat_s):
            self._raised[subject] = now_s
            yield Alarm(self.name, subject, text, now_s, figure)
        elif not holds and raised is not None:
            del self._raised[subject]
            yield Alarm(self.name, subject, f"over: {text}", now_s, figure, is_over=True)


def matches(queue: str, patterns: Iterable[str]) -> bool:
    """Whether a queue is meant: by its path, with * and ?, in any case; `.` is any computer."""
    path = queue.lower()
    local = "." + path[path.index("\\") :] if "\\" in path else path
    return any(
        fnmatchcase(name, pattern.replace("/", "\\").lower().replace("[", "[[]"))
        for pattern in patterns
        for name in (path, local)
    )


class DeadLetters:
    """Dead letters of one cluster: the same reason, destination and shape of body."""

    def __init__(self, name: str, count: int, within_s: float, repeat_s: float = REPEAT_S) -> None:
        self.name = name
        self._count = count
        self._within_s = within_s
        self._repeat_s = repeat_s
        self._came: dict[tuple[str, str, str], deque[float]] = defaultdict(deque)
        self._raised: dict[tuple[str, str, str], float] = {}

    def look(self, look: Look) -> Iterator[Alarm]:
        """Letters that came."""
        touched = set()
        for message in look.messages:
            if message.queue.lower().endswith(_DEAD):
                key = (message.reason, message.destination, message.shape)
                self._came[key].append(look.now_s)
                touched.add(key)
        self._forget(look.now_s)
        for key in sorted(touched):
            yield from self._alarm(look.now_s, key)

    def _forget(self, now_s: float) -> None:
        for key, times in list(self._came.items()):
            while times and times[0] <= now_s - self._within_s:
                times.popleft()
            if not times:
                del self._came[key]

    def _alarm(self, now_s: float, key: tuple[str, str, str]) -> Iterator[Alarm]:
        count = len(self._came.get(key, ()))
        raised = self._raised.get(key)
        if count < self._count or (raised is not None and now_s - raised < self._repeat_s):
            return
        self._raised[key] = now_s
        reason, destination, shape = key
        text = f"{count} dead letters ({reason or 'no reason'}) for {destination or 'nowhere'}"
        yield Alarm(self.name, f"{reason} {destination} {shape}".strip(), text, now_s, float(count))


class OldestAge:
    """A message that has waited too long."""

    def __init__(
        self, name: str, queues: Iterable[str], over_s: float, repeat_s: float = REPEAT_S
    ) -> None:
        self.name = name
        self._queues = tuple(queues)
        self._over_s = over_s
        self._condition = Condition(name, repeat_s)

    def look(self, look: Look) -> Iterator[Alarm]:
        """The age of the oldest message of each queue."""
        for sample in look.queues:
            if matches(sample.queue, self._queues):
                age = 0.0 if sample.oldest_s is None else look.now_s - sample.oldest_s
                text = f"the oldest message of {sample.queue} has waited for {age:,.0f} s"
                holds = age > self._over_s
                yield from self._condition.update(look.now_s, sample.queue, holds, text, age)


class ReceiveLatency:
    """Messages that were received late; journals show when they were."""

    def __init__(
        self,
        name: str,
        queues: Iterable[str],
        over_s: float,
        percent: float,
        within_s: float,
        least: int,
        repeat_s: float = REPEAT_S,
    ) -> None:
        self.name = name
        self._queues = tuple(queues)
        self._over_s = over_s
        self._percent = percent
        self._within_s = within_s
        self._least = least
        self._condition = Condition(name, repeat_s)
        self._took: dict[str, deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=KEPT_MAX)
        )

    def look(self, look: Look) -> Iterator[Alarm]:
        """Receipts of the last time, by queue."""
        for message in look.messages:
            queue, journal, rest = message.queue.rpartition(JOURNAL)
            if journal and not rest and matches(queue, self._queues):
                took = max(0.0, message.arrived_s - message.sent_s)
                self._took[queue].append((message.arrived_s, took))
        for queue, receipts in self._took.items():
            while receipts and receipts[0][0] <= look.now_s - self._within_s:
                receipts.popleft()
            yield from self._judge(look.now_s, queue, [took for _, took in receipts])

    def _judge(self, now_s: float, queue: str, took: list[float]) -> Iterator[Alarm]:
        late = sum(one > self._over_s for one in took)
        share = 100.0 * late / len(took) if took else 0.0
        holds = len(took) >= self._least and share > 100.0 - self._percent
        text = f"{share:.0f} % of {len(took)} messages of {queue} were received late"
        yield from self._condition.update(now_s, queue, holds, text, share)


class BacklogSlope:
    """A queue that grows all the time: fewer messages are received than come."""

    def __init__(
        self,
        name: str,
        queues: Iterable[str],
        per_s: float,
        within_s: float,
        least: int,
        repeat_s: float = REPEAT_S,
    ) -> None:
        self.name = name
        self._queues = tuple(queues)
        self._per_s = per_s
        self._within_s = within_s
        self._least = least
        self._condition = Condition(name, repeat_s)
        self._seen: dict[str, deque[tuple[float, int]]] = defaultdict(
            lambda: deque(maxlen=KEPT_MAX)
        )

    def look(self, look: Look) -> Iterator[Alarm]:
        """The course of each queue."""
        for sample in look.queues:
            if matches(sample.queue, self._queues):
                yield from self._judge(look.now_s, sample)

    def _judge(self, now_s: float, sample: QueueSample) -> Iterator[Alarm]:
        seen = self._seen[sample.queue]
        seen.append((now_s, sample.messages))
        while seen[0][0] < now_s - self._within_s:
            seen.popleft()
        is_whole = now_s - seen[0][0] >= 0.9 * self._within_s  # less would be a guess
        rate = slope(seen)
        holds = is_whole and rate > self._per_s and sample.messages >= self._least
        text = f"{sample.queue} grows by {rate:.2f} messages a second, to {sample.messages:,}"
        yield from self._condition.update(now_s, sample.queue, holds, text, rate)


def slope(points: Iterable[tuple[float, float]]) -> float:
    """How steeply some points rise, by least squares."""
    found = list(points)
    if len(found) < 2:
        return 0.0
    middle_x = sum(x for x, _ in found) / len(found)
    middle_y = sum(y for _, y in found) / len(found)
    spread = sum((x - middle_x) ** 2 for x, _ in found)
    return sum((x - middle_x) * (y - middle_y) for x, y in found) / spread if spread else 0.0


class Unanswered:
    """Requests to which no answer came: messages of one queue that others correlate to."""

    def __init__(
        self, name: str, queues: Iterable[str], within_s: float, repeat_s: float = REPEAT_S
    ) -> None:
        self.name = name
        self._queues = tuple(queues)
        self._within_s = within_s
        self._condition = Condition(name, repeat_s)
        self._open: dict[str, tuple[float, str]] = {}
        self._answered: dict[str, None] = {}

    def look(self, look: Look) -> Iterator[Alarm]:
        """Requests and answers that were seen; what is late now, and what no longer is."""
        for message in look.messages:
            self._note(message)
        now_s = look.now_s
        for request in [one for one in self._open if one in self._answered]:
            sent_s, queue = self._open.pop(request)
            text = f"the request {request} to {queue} was answered"
            yield from self._condition.update(now_s, request, False, text, now_s - sent_s)
        for request, (sent_s, queue) in self._open.items():
            waited = now_s - sent_s
            text = f"the request {request} to {queue} has had no answer for {waited:,.0f} s"
            yield from self._condition.update(now_s, request, waited > self._within_s, text, waited)
        _shorten(self._open)
        _shorten(self._answered)

    def _note(self, message: SeenMessage) -> None:
        if message.correlation:
            self._answered[message.correlation] = None
        queue = message.queue.removesuffix(JOURNAL)
        if message.wants_answer and matches(queue, self._queues):
            self._open.setdefault(message.id, (message.sent_s, queue))


class NewSenders:
    """Senders that were never seen before; what comes in the first time is learned."""

    def __init__(
        self, name: str, queues: Iterable[str], learn_s: float, known: Iterable[str] = ()
    ) -> None:
        self.name = name
        self._queues = tuple(queues)
        self._learn_s = learn_s
        self._began_s: float | None = None
        self.known: dict[str, None] = dict.fromkeys(known)

    def look(self, look: Look) -> Iterator[Alarm]:
        """Senders and their machines that are new."""
        if self._began_s is None:
            self._began_s = look.now_s
        learns = look.now_s - self._began_s < self._learn_s
        for message in look.messages:
            queue = message.queue.removesuffix(JOURNAL)
            if not matches(queue, self._queues):
                continue
            for word, value in (("the user", message.sender), ("the computer", message.source)):
                subject = f"{word} {value}"
                if value and subject not in self.known:
                    self.known[subject] = None
                    if not learns:
                        text = f"{subject} has never sent to {queue} before"
                        yield Alarm(self.name, subject, text, look.now_s)
        _shorten(self.known)


def _shorten(kept: dict[str, object] | dict[str, tuple[float, str]] | dict[str, None]) -> None:
    """Forgets the oldest where too many are kept."""
    for key in list(kept)[: max(0, len(kept) - KEPT_MAX)]:
        del kept[key]


class Watcher:
    """All rules of an operator over one look after the other."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)

    def look(self, look: Look) -> list[Alarm]:
        """The alarms that a look raises."""
        return [alarm for rule in self.rules for alarm in rule.look(look)]


Deliver = Callable[[Alarm], None]
