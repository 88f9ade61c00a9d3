"""Rules over simulated time: ten faults are found within their time, normal traffic raises nothing.

One hour of a shop: orders that come at odd intervals and are received after some seconds, requests
that are answered, now and then a dead letter. Time is what the simulation says it is.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from posthouse.model.errors import InvalidParameter
from posthouse.spark.watching import rules
from posthouse.spark.watching.observations import Alarm, Look, QueueSample, SeenMessage
from posthouse.spark.watching.rules import (
    BacklogSlope,
    DeadLetters,
    OldestAge,
    Seconds,
    Unanswered,
    matches,
    slope,
)
from posthouse.spark.watching.rules_file import plan_of
from tests.conftest import Dose

BEGIN_S = 1_800_000_000.0
LOOK_S = 10.0
HOUR_S = 3600.0
FAULT_S = BEGIN_S + 1800.0
ORDERS = "ALPHA\\private$\\orders"
REQUESTS = "ALPHA\\private$\\requests"
ANSWERS = "ALPHA\\private$\\answers"
DEAD = "ALPHA\\system$;deadletter"
RULES: dict[str, Any] = {
    "queues": ["./private$/orders", "./private$/requests", "./private$/answers"],
    "every": "10s",
    "rule": [
        {"name": "dead", "kind": "dead-letters", "count": 5, "within": "10m"},
        {"name": "age", "kind": "oldest-age", "queues": ["./private$/*"], "over": "2m"},
        {
            "name": "latency",
            "kind": "receive-latency",
            "queues": ["./private$/orders"],
            "over": "30s",
            "percent": 90,
            "within": "5m",
        },
        {
            "name": "growth",
            "kind": "backlog-slope",
            "queues": ["./private$/orders"],
            "per_second": 0.2,
            "within": "5m",
            "least": 50,
        },
        {
            "name": "answers",
            "kind": "unanswered",
            "queues": ["./private$/requests"],
            "within": "1m",
        },
        {"name": "senders", "kind": "new-senders", "queues": ["./private$/*"], "learn": "10m"},
    ],
}


class Shop:
    """Queues whose messages come and go by a script; `broken` is what is wrong from FAULT_S on."""

    def __init__(self, seed: int, broken: str = "") -> None:
        self.random = random.Random(seed)
        self.broken = broken
        self.now_s = BEGIN_S
        self.waiting: dict[str, list[tuple[float, SeenMessage]]] = {
            ORDERS: [],
            REQUESTS: [],
            ANSWERS: [],
        }
        self.new: list[SeenMessage] = []
        self.count = 0

    def has(self, fault: str) -> bool:
        return self.broken == fault and self.now_s >= FAULT_S

    def message(self, queue: str, **more: Any) -> SeenMessage:
        self.count += 1
        names = {"sender": f"S-1-5-{self.random.randrange(5)}", "source": "branch"}
        made = SeenMessage(queue, f"{self.count:040x}", self.now_s, self.now_s, **(names | more))
        self.new.append(made)
        return made

    def put(self, queue: str, stays_s: float, **more: Any) -> SeenMessage:
        made = self.message(queue, **more)
        self.waiting[queue].append((self.now_s + stays_s, made))
        return made

    def letter(self, reason: str, shape: str, destination: str = "DIRECT=OS:alpha") -> None:
        self.message(
            DEAD, reason=reason, destination=destination, shape=shape, sender="", source=""
        )

    def second(self) -> None:
        self.now_s += 1.0
        self._receive()
        orders = self.random.random() < 0.5
        if orders or self.has("flood"):
            for _ in range(3 if self.has("flood") else 1):
                self.put(ORDERS, self._stay())
        if self.random.random() < 0.1:
            request = self.put(REQUESTS, 2.0, wants_answer=True)
            self._answer(request)
        if self.random.random() < 0.002:
            self.letter("nack-receive-timeout", f"json {self.random.randrange(3)}")
        self._faults()

    def _stay(self) -> float:
        if self.has("stopped consumer") or self.has("flood"):
            return 1e9
        slow = 45.0 if self.has("slow consumer") else 0.0
        return slow + self.random.uniform(0.5, 12.0)

    def _answer(self, request: SeenMessage) -> None:
        if self.has("dead responder"):
            return
        if self.has("lost answer") and self.broken == "lost answer" and self.lost():
            return
        self.put(ANSWERS, self.random.uniform(1.0, 5.0), correlation=request.id)

    def lost(self) -> bool:
        """One answer, the first after the fault."""
        self.broken = "lost answer, once"
        return True

    def _faults(self) -> None:
        seconds = self.now_s - FAULT_S
        if self.has("poison message") and seconds % 20 == 0:
            self.letter("nack-receive-rejected", "xml order")
        if self.has("full queue") and seconds % 5 == 0:
            self.letter("nack-queue-exceed-quota", "json 1", "DIRECT=OS:bravo")
        if self.has("second cluster") and seconds % 30 == 0:
            self.letter("nack-receive-timeout", "text new")
        if self.has("new user") and seconds == 5:
            self.put(ORDERS, 3.0, sender="S-1-5-666")
        if self.has("new computer") and seconds == 5:
            self.put(REQUESTS, 3.0, source="stranger")
        if self.has("stuck message") and seconds == 5:
            self.put(ANSWERS, 1e9)

    def _receive(self) -> None:
        for queue, messages in self.waiting.items():
            for until_s, message in messages:
                if until_s <= self.now_s:
                    received = message._replace(queue=f"{queue};journal", arrived_s=self.now_s)
                    self.new.append(received)
            self.waiting[queue] = [one for one in messages if one[0] > self.now_s]

    def look(self) -> Look:
        samples = tuple(
            QueueSample(queue, len(messages), messages[0][1].arrived_s if messages else None)
            for queue, messages in self.waiting.items()
        )
        found, self.new = tuple(self.new), []
        return Look(self.now_s, samples, found)


def watched(shop: Shop, seconds: float = HOUR_S) -> list[Alarm]:
    """All alarms of an hour."""
    watcher = plan_of(RULES).watcher({})
    alarms: list[Alarm] = []
    for second in range(int(seconds)):
        shop.second()
        if (second + 1) % LOOK_S == 0:
            alarms += watcher.look(shop.look())
    return alarms


def test_an_hour_of_normal_traffic_raises_nothing(dose: Dose) -> None:
    for seed in range(dose(5, 200)):
        assert watched(Shop(seed)) == [], seed


FAULTS = [
    ("poison message", "dead", 110.0),
    ("full queue", "dead", 40.0),
    ("second cluster", "dead", 150.0),
    ("stopped consumer", "age", 150.0),
    ("stuck message", "age", 140.0),
    ("slow consumer", "latency", 200.0),
    ("flood", "growth", 320.0),
    ("dead responder", "answers", 100.0),
    ("lost answer", "answers", 130.0),
    ("new user", "senders", 20.0),
    ("new computer", "senders", 20.0),
]


@pytest.mark.parametrize(("fault", "rule", "within_s"), FAULTS, ids=[one[0] for one in FAULTS])
def test_a_fault_is_found_in_time(fault: str, rule: str, within_s: float) -> None:
    alarms = watched(Shop(1, fault))
    found = [alarm for alarm in alarms if alarm.rule == rule and not alarm.is_over]
    assert found, "it was not found"
    assert min(alarm.at_s for alarm in alarms) >= FAULT_S
    assert found[0].at_s - FAULT_S <= within_s
    assert len({alarm.subject for alarm in found}) == len(found) or rule == "answers"


def test_an_alarm_ends_and_is_repeated_while_it_lasts() -> None:
    watcher = plan_of(
        {"queues": ["q"], "rule": [RULES["rule"][1] | {"repeat": "5m", "queues": ["*"]}]}
    ).watcher({})

    def at(second: float, oldest: float | None) -> list[tuple[bool, float]]:
        found = watcher.look(Look(second, (QueueSample(ORDERS, 1, oldest),)))
        return [(alarm.is_over, alarm.figure) for alarm in found]

    assert at(100, 0.0) == []
    assert at(130, 0.0) == [(False, 130.0)]
    assert at(140, 0.0) == []
    assert at(431, 0.0) == [(False, 431.0)]
    assert at(440, 435.0) == [(True, 5.0)]
    assert at(450, None) == []


def test_an_answer_that_was_seen_before_its_request_counts() -> None:
    rule = Unanswered(name="answers", queues=["*"], within=Seconds(10.0))
    answer = SeenMessage(ANSWERS, "b", 1.0, 1.0, correlation="a")
    request = SeenMessage(REQUESTS, "a", 1.0, 1.0, wants_answer=True)
    assert list(rule.look(Look(1.0, (), (answer, request)))) == []
    assert list(rule.look(Look(100.0))) == []


def test_alarms_of_subjects_that_are_gone_are_forgotten() -> None:
    """Queues that were deleted, clusters and requests that are over: none is kept for ever."""
    old = OldestAge(name="old", queues=["*"], over=Seconds(1.0), repeat=Seconds(60.0))
    dead = DeadLetters(name="dead", repeat=Seconds(60.0))
    open_request = Unanswered(name="a", queues=["*"], within=Seconds(1.0), repeat=Seconds(60.0))
    for second in range(0, 6000, 10):
        letter = SeenMessage(".;deadletter", "x", second, second, destination=f"d{second}")
        request = SeenMessage(REQUESTS, f"r{second}", second, second, wants_answer=True)
        queue = QueueSample(f"q{second}", 1, second - 100.0)
        for rule in (old, dead, open_request):
            list(rule.look(Look(float(second), (queue,), (letter, request))))
    assert (len(old._condition.raised), len(dead._raised)) == (13, 13)
    assert len(open_request._condition.raised) == len(open_request._open) - 1, "they last"


def test_a_rule_keeps_a_bounded_number_of_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "KEPT_MAX", 20)
    dead = DeadLetters(name="dead")
    requests = Unanswered(name="a", queues=["*"], within=Seconds(1.0))
    for second in range(100):
        letter = SeenMessage(".;deadletter", "x", second, second, destination=f"d{second}")
        request = SeenMessage(REQUESTS, f"r{second}", second, second, wants_answer=True)
        for rule in (dead, requests):
            list(rule.look(Look(float(second), (), (letter, request))))
    assert len(dead._raised) == len(dead._came) == 20
    assert len(requests._condition.raised) <= len(requests._open) == 20


def test_known_senders_are_remembered() -> None:
    plan = plan_of(RULES)
    stranger = SeenMessage(ORDERS, "a", 1.0, 1.0, sender="S-1")
    known = {"senders": ["the user S-1"]}
    assert plan.watcher(known).look(Look(1.0, (), (stranger,))) == []
    other = stranger._replace(sender="S-2")
    (alarm,) = plan.watcher(known).look(Look(1.0, (), (other,)))
    assert alarm.subject == "the user S-2"


def test_growth_is_judged_over_its_whole_time() -> None:
    rule = BacklogSlope(
        name="growth", queues=["*"], per_second=1.0, within=Seconds(100.0), least=10
    )

    def at(second: float, messages: int) -> int:
        return len(list(rule.look(Look(second, (QueueSample(ORDERS, messages, 0.0),)))))

    assert [at(10.0 * step, 20 * step) for step in range(9)] == [0] * 9
    assert at(90.0, 180) == 1


def test_a_slope_is_what_it_is() -> None:
    assert slope([]) == slope([(1.0, 5.0)]) == slope([(1.0, 2.0), (1.0, 4.0)]) == 0.0
    assert slope([(0.0, 1.0), (10.0, 21.0), (20.0, 41.0)]) == pytest.approx(2.0)


def test_patterns_name_queues_of_any_computer() -> None:
    assert matches(ORDERS, ["./private$/Ord*"])
    assert matches(ORDERS, ["alpha\\private$\\orders"])
    assert not matches(ORDERS, ["./private$/order"])
    assert not matches(ORDERS, ["bravo\\*"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queues": []}, "queues"),
        ({"rule": []}, "rule"),
        ({"every": "soon"}, "'soon' is not a duration"),
        ({"made_up": 1}, "made_up"),
        ({"rule": [{"name": "x", "kind": "made-up"}]}, "made-up"),
        ({"rule": [{"name": "x", "kind": "oldest-age", "queues": ["q"]}]}, "over"),
        ({"rule": [RULES["rule"][0] | {"wihtin": "1m"}]}, "wihtin"),
        ({"rule": [RULES["rule"][0] | {"within": "0s"}]}, "duration"),
        ({"rule": [RULES["rule"][0], RULES["rule"][0]]}, "the same name"),
        ({"alarms": {"webhooks": ["file:///etc/passwd"]}}, "not an address"),
        ({"alarms": {"webhooks": ["https://user:secret@host/"]}}, "not an address"),
        ({"alarms": {"webhooks": ["https://host/secret x"]}}, "not an address"),
        ({"alarms": {"webhooks": ["https://host:99999/secret"]}}, "not an address"),
        ({"alarms": {"webhooks": ["https://[::1/secret"]}}, "not an address"),
        ({"alarms": {"webhooks": ["https://host/secret\u00fc"]}}, "not an address"),
    ],
    ids=str,
)
def test_a_wrong_file_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as refused:
        plan_of(RULES | change)
    assert "\n" not in str(refused.value)
    assert "secret" not in refused.value.cause
