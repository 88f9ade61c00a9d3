"""The rules file of an operator: watched queues, rules, and where alarms go.

Targets of webhooks come from this file and from nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from posthouse.model.durations import DURATION_REMEDY, parse_duration
from posthouse.model.errors import InvalidParameter
from posthouse.spark.toml_files import read_table, struct_of
from posthouse.spark.watching.rules import (
    BacklogSlope,
    DeadLetters,
    NewSenders,
    OldestAge,
    Patterns,
    ReceiveLatency,
    Seconds,
    Unanswered,
    Watcher,
)

RULES_MAX: Final = 200


AnyRule = DeadLetters | OldestAge | ReceiveLatency | BacklogSlope | Unanswered | NewSenders


class Targets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where alarms go."""

    log: str = ""
    queue: str = ""
    webhooks: Annotated[list[str], Meta(max_length=16)] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queues: Patterns
    rule: Annotated[list[AnyRule], Meta(min_length=1, max_length=RULES_MAX)]
    every: Seconds = Seconds(10.0)
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
        made = [msgspec.structs.replace(rule) for rule in self.rules]
        for rule in made:
            if isinstance(rule, NewSenders):
                rule.remember(known.get(rule.name, ()))
        return Watcher(made)


def read_plan(path: Path) -> WatchPlan:
    """The file; whatever is wrong with it is refused."""
    return plan_of(read_table(path, _REMEDY), str(path))


_REMEDY: Final = "docs/pipelines.md has an example of a file of rules."


def plan_of(table: dict[str, Any], source: str = "the file") -> WatchPlan:
    """The plan of a table of TOML."""
    found = struct_of(table, _File, source, _REMEDY, _seconds)
    names = [rule.name for rule in found.rule]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"{source}: two rules have the same name", "Name each differently.")
    for url in found.alarms.webhooks:
        _check_url(url, source)
    queues = tuple(name.replace("/", "\\") for name in found.queues)
    return WatchPlan(queues, tuple(found.rule), found.every, found.state, found.alarms)


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


def _seconds(kind: type, value: Any) -> Seconds:
    """A duration of the file."""
    found = parse_duration(value) if isinstance(value, str) else None
    if kind is not Seconds or found is None or found <= 0:
        raise ValueError(f"{value!r} is not a duration. {DURATION_REMEDY}")
    return Seconds(found)
