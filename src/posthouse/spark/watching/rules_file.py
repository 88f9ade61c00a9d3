"""The file of an operator: which queues are watched, the rules, and where alarms go.

Targets of webhooks come from this file and from nowhere else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from posthouse.model.durations import DURATION_REMEDY, parse_duration
from posthouse.model.errors import InvalidParameter
from posthouse.spark.watching import rules
from posthouse.spark.watching.rules import Watcher

Name = Annotated[str, Meta(min_length=1, max_length=120)]
Duration = str
Patterns = Annotated[list[Name], Meta(min_length=1, max_length=256)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
RULES_MAX: Final = 200


class _Rule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True
):
    name: Name
    repeat: Duration = "1h"


class DeadLettersRule(
    _Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="dead-letters"
):
    """Dead letters of one cluster."""

    count: Count = 1
    within: Duration = "10m"

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        return rules.DeadLetters(self.name, self.count, _s(self.within), _s(self.repeat))


class OldestAgeRule(_Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="oldest-age"):
    """The age of the oldest message."""

    queues: Patterns
    over: Duration

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        return rules.OldestAge(self.name, self.queues, _s(self.over), _s(self.repeat))


class ReceiveLatencyRule(
    _Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="receive-latency"
):
    """More of the messages than allowed were received later than allowed."""

    queues: Patterns
    over: Duration
    percent: Annotated[float, Meta(ge=0, le=100)] = 95.0
    within: Duration = "10m"
    least: Count = 20

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        times = _s(self.over), self.percent, _s(self.within)
        return rules.ReceiveLatency(self.name, self.queues, *times, self.least, _s(self.repeat))


class BacklogSlopeRule(
    _Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="backlog-slope"
):
    """A queue that grows."""

    queues: Patterns
    per_second: Annotated[float, Meta(gt=0)]
    within: Duration = "10m"
    least: Count = 100

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        within, repeat = _s(self.within), _s(self.repeat)
        return rules.BacklogSlope(
            self.name, self.queues, self.per_second, within, self.least, repeat
        )


class UnansweredRule(
    _Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unanswered"
):
    """Requests without an answer."""

    queues: Patterns
    within: Duration

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        return rules.Unanswered(self.name, self.queues, _s(self.within), _s(self.repeat))


class NewSendersRule(
    _Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="new-senders"
):
    """Senders that were never seen before."""

    queues: Patterns
    learn: Duration = "1h"

    def made(self, known: Iterable[str]) -> rules.Rule:
        """The rule at work."""
        remembered = list(known)
        return rules.NewSenders(
            self.name, self.queues, 0.0 if remembered else _s(self.learn), remembered
        )


AnyRule = (
    DeadLettersRule
    | OldestAgeRule
    | ReceiveLatencyRule
    | BacklogSlopeRule
    | UnansweredRule
    | NewSendersRule
)


class Targets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where alarms go."""

    log: str = ""
    queue: str = ""
    webhooks: Annotated[list[str], Meta(max_length=16)] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queues: Patterns
    rule: Annotated[list[AnyRule], Meta(min_length=1, max_length=RULES_MAX)]
    every: Duration = "10s"
    state: str = ""
    alarms: Targets = Targets()


class WatchPlan(NamedTuple):
    """What such a file asks for."""

    queues: tuple[str, ...]
    rules: tuple[AnyRule, ...]
    every_s: float
    state: str
    targets: Targets

    def watcher(self, known: dict[str, list[str]]) -> Watcher:
        """The rules at work; `known` has the senders that each of them has seen, by its name."""
        return Watcher(rule.made(known.get(rule.name, ())) for rule in self.rules)


def read_plan(path: Path) -> WatchPlan:
    """The file; whatever is wrong with it is refused."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"{path} cannot be read: {error}", _REMEDY) from None
    return plan_of(table, str(path))


_REMEDY: Final = "docs/spark.md has an example of a file of rules."


def plan_of(table: dict[str, Any], source: str = "the file") -> WatchPlan:
    """The plan of a table of TOML."""
    try:
        found = msgspec.convert(table, _File)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"{source}: {error}", _REMEDY) from None
    names = [rule.name for rule in found.rule]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"{source}: two rules have the same name", "Name each differently.")
    for url in found.alarms.webhooks:
        _check_url(url, source)
    for rule in found.rule:
        rule.made(())  # its durations
    queues = tuple(name.replace("/", "\\") for name in found.queues)
    return WatchPlan(queues, tuple(found.rule), _s(found.every), found.state, found.alarms)


def _check_url(url: str, source: str) -> None:
    """Its text may be a secret: only its host is named."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        good = parts.scheme in ("http", "https") and host and not parts.username
    except ValueError:
        host, good = "", False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        where = f" ({host})" if host else ""
        raise InvalidParameter(
            f"{source}: an entry of webhooks{where} is not an address for a webhook",
            "Write https://HOST/PATH in ASCII, without spaces; a secret belongs into the path, not "
            "before the host.",
        )


def _s(text: Duration) -> float:
    found = parse_duration(text)
    if found is None or found <= 0:
        raise InvalidParameter(f"{text!r} is not a duration", DURATION_REMEDY)
    return found
