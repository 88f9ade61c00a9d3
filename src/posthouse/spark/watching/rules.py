"""Rules of an operator: what raises an alarm, each with its own figures.

The fields of a rule are those of its table in the file. A rule looks at what is seen, and keeps no
more than its own time of it. Each subject (a queue, a cluster, a request) raises one alarm; it is
repeated while it lasts, and one more follows when it is over, for conditions that can be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, MutableMapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from posthouse.spark.watching.observations import Alarm, Look, QueueSample, SeenMessage

KEPT_MAX: Final = 100_000
"""What one rule remembers of requests, senders, receipts or alarms; the oldest go first."""
JOURNAL: Final = ";journal"
_DEAD: Final = (";deadletter", ";deadxact")

Name = Annotated[str, Meta(min_length=1, max_length=120)]
Patterns = Annotated[list[Name], Meta(min_length=1, max_length=256)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Subject = TypeVar("Subject")


class Seconds(float):
    """A time; in the file it is a duration such as "10m"."""


HOUR: Final = Seconds(3600.0)
TEN_MINUTES: Final = Seconds(600.0)


class Rule(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", kw_only=True, dict=True):
    """One rule: its figures, and what it remembers between looks."""

    name: Name
    repeat: Seconds = HOUR

    def look(self, look: Look) -> Iterator[Alarm]:
        """What this look adds."""
        yield from ()


class RaisedAlarms(Generic[Subject]):
    """Which subjects have raised an alarm, and when."""

    def __init__(self, repeat_s: float) -> None:
        self._repeat_s = repeat_s
        self._raised: dict[Subject, float] = {}

    def __len__(self) -> int:
        return len(self._raised)

    def is_due(self, now_s: float, subject: Subject) -> bool:
        """Whether a subject raises an alarm now: its first, or after `repeat` one more."""
        raised = self._raised.get(subject)
        if raised is not None and now_s - raised < self._repeat_s:
            return False
        self._raised.pop(subject, None)
        self._raised[subject] = now_s
        return True

    def end(self, subject: Subject) -> bool:
        """A subject is as it should be; whether it had raised an alarm."""
        return self._raised.pop(subject, None) is not None

    def forget(self, now_s: float) -> None:
        """Drops subjects that are no longer looked at: those that last were raised again."""
        for subject, raised in list(self._raised.items()):
            if now_s - raised <= 2 * self._repeat_s:
                break  # the others are later
            del self._raised[subject]
        _shorten(self._raised)


class Condition:
    """Alarms about something that lasts: raised once, repeated in time, ended."""

    def __init__(self, rule: Rule) -> None:
        self._name = rule.name
        self.raised: RaisedAlarms[str] = RaisedAlarms(rule.repeat)

    def update(
        self, now_s: float, subject: str, holds: bool, text: str, figure: float
    ) -> Iterator[Alarm]:
        """The state of a subject now."""
        if holds and self.raised.is_due(now_s, subject):
            yield Alarm(self._name, subject, text, now_s, figure)
        elif not holds and self.raised.end(subject):
            yield Alarm(self._name, subject, f"over: {text}", now_s, figure, is_over=True)


def matches(queue: str, patterns: Iterable[str]) -> bool:
    """Whether a queue is meant: by its path, with * and ?, in any case; `.` is any computer."""
    path = queue.lower()
    local = "." + path[path.index("\\") :] if "\\" in path else path
    return any(
        fnmatchcase(name, pattern.replace("/", "\\").lower().replace("[", "[[]"))
        for pattern in patterns
        for name in (path, local)
    )


class DeadLetters(Rule, tag="dead-letters"):
    """Dead letters of one cluster: the same reason, destination and shape of body."""

    count: Count = 1
    within: Seconds = TEN_MINUTES

    def __post_init__(self) -> None:
        kept = max(KEPT_MAX, self.count)
        self._came: dict[tuple[str, str, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=kept)
        )
        self._raised: RaisedAlarms[tuple[str, str, str]] = RaisedAlarms(self.repeat)

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
        self._raised.forget(look.now_s)

    def _forget(self, now_s: float) -> None:
        for key, times in list(self._came.items()):
            while times and times[0] <= now_s - self.within:
                times.popleft()
            if not times:
                del self._came[key]
        _shorten(self._came)

    def _alarm(self, now_s: float, key: tuple[str, str, str]) -> Iterator[Alarm]:
        count = len(self._came.get(key, ()))
        if count < self.count or not self._raised.is_due(now_s, key):
            return
        reason, destination, shape = key
        text = f"{count} dead letters ({reason or 'no reason'}) for {destination or 'nowhere'}"
        yield Alarm(self.name, f"{reason} {destination} {shape}".strip(), text, now_s, float(count))


class OldestAge(Rule, tag="oldest-age"):
    """A message that has waited too long."""

    queues: Patterns
    over: Seconds

    def __post_init__(self) -> None:
        self._condition = Condition(self)

    def look(self, look: Look) -> Iterator[Alarm]:
        """The age of the oldest message of each queue."""
        for sample in look.queues:
            if matches(sample.queue, self.queues):
                age = 0.0 if sample.oldest_s is None else look.now_s - sample.oldest_s
                text = f"the oldest message of {sample.queue} has waited for {age:,.0f} s"
                holds = age > self.over
                yield from self._condition.update(look.now_s, sample.queue, holds, text, age)
        self._condition.raised.forget(look.now_s)


class ReceiveLatency(Rule, tag="receive-latency"):
    """Messages that were received late; journals show when they were."""

    queues: Patterns
    over: Seconds
    percent: Annotated[float, Meta(ge=0, le=100)] = 95.0
    within: Seconds = TEN_MINUTES
    least: Count = 20

    def __post_init__(self) -> None:
        self._condition = Condition(self)
        self._took: dict[str, deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=KEPT_MAX)
        )

    def look(self, look: Look) -> Iterator[Alarm]:
        """Receipts of the last time, by queue."""
        for message in look.messages:
            queue, journal, rest = message.queue.rpartition(JOURNAL)
            if journal and not rest and matches(queue, self.queues):
                took = max(0.0, message.arrived_s - message.sent_s)
                self._took[queue].append((message.arrived_s, took))
        for queue, receipts in self._took.items():
            while receipts and receipts[0][0] <= look.now_s - self.within:
                receipts.popleft()
            yield from self._judge(look.now_s, queue, [took for _, took in receipts])
        self._condition.raised.forget(look.now_s)

    def _judge(self, now_s: float, queue: str, took: list[float]) -> Iterator[Alarm]:
        late = sum(one > self.over for one in took)
        share = 100.0 * late / len(took) if took else 0.0
        holds = len(took) >= self.least and share > 100.0 - self.percent
        text = f"{share:.0f} % of {len(took)} messages of {queue} were received late"
        yield from self._condition.update(now_s, queue, holds, text, share)


class BacklogSlope(Rule, tag="backlog-slope"):
    """A queue that grows all the time: fewer messages are received than come."""

    queues: Patterns
    per_second: Annotated[float, Meta(gt=0)]
    within: Seconds = TEN_MINUTES
    least: Count = 100

    def __post_init__(self) -> None:
        self._condition = Condition(self)
        self._seen: dict[str, deque[tuple[float, int]]] = defaultdict(
            lambda: deque(maxlen=KEPT_MAX)
        )

    def look(self, look: Look) -> Iterator[Alarm]:
        """The course of each queue."""
        for sample in look.queues:
            if matches(sample.queue, self.queues):
                yield from self._judge(look.now_s, sample)
        self._condition.raised.forget(look.now_s)

    def _judge(self, now_s: float, sample: QueueSample) -> Iterator[Alarm]:
        seen = self._seen[sample.queue]
        seen.append((now_s, sample.messages))
        while seen[0][0] < now_s - self.within:
            seen.popleft()
        is_whole = now_s - seen[0][0] >= 0.9 * self.within  # less would be a guess
        rate = slope(seen)
        holds = is_whole and rate > self.per_second and sample.messages >= self.least
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


class Unanswered(Rule, tag="unanswered"):
    """Requests to which no answer came: messages of one queue that others correlate to."""

    queues: Patterns
    within: Seconds

    def __post_init__(self) -> None:
        self._condition = Condition(self)
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
            yield from self._condition.update(now_s, request, waited > self.within, text, waited)
        _shorten(self._open)
        _shorten(self._answered)
        self._condition.raised.forget(now_s)

    def _note(self, message: SeenMessage) -> None:
        if message.correlation:
            self._answered[message.correlation] = None
        queue = message.queue.removesuffix(JOURNAL)
        if message.wants_answer and matches(queue, self.queues):
            self._open.setdefault(message.id, (message.sent_s, queue))


class NewSenders(Rule, tag="new-senders"):
    """Senders that were never seen before; what comes in the first time is learned."""

    queues: Patterns
    learn: Seconds = HOUR

    def __post_init__(self) -> None:
        self._began_s: float | None = None
        self.known: dict[str, None] = {}

    def remember(self, known: Iterable[str]) -> None:
        """Senders that an earlier run has seen: with some there is nothing to learn."""
        self.known = dict.fromkeys(known)
        if self.known:
            self.learn = Seconds(0.0)

    def look(self, look: Look) -> Iterator[Alarm]:
        """Senders and their machines that are new."""
        if self._began_s is None:
            self._began_s = look.now_s
        learns = look.now_s - self._began_s < self.learn
        for message in look.messages:
            queue = message.queue.removesuffix(JOURNAL)
            if not matches(queue, self.queues):
                continue
            for word, value in (("the user", message.sender), ("the computer", message.source)):
                subject = f"{word} {value}"
                if value and subject not in self.known:
                    self.known[subject] = None
                    if not learns:
                        text = f"{subject} has never sent to {queue} before"
                        yield Alarm(self.name, subject, text, look.now_s)
        _shorten(self.known)


def _shorten(kept: MutableMapping[Any, Any]) -> None:
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
