"""Health problems, as the API, the command line and the page show them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from posthouse.api.status import (
    ClaimJson,
    ClockJson,
    CountedJson,
    UnreachableJson,
)
from posthouse.engine.machine import health
from posthouse.engine.machine.identity import COPIED_REMEDY
from posthouse.engine.machine.shortages import Scarcity, scarcities
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.message_json import time_text
from posthouse.model.text import counted

REFUSED_SHOWN = 3  # queues, causes and addresses
SHOWN_MAX = 100  # outgoing queues and claims, each
DOMAIN_REMEDY: Final = (
    "Check `wbinfo --ping-dc`, and that the service user is in the group winbindd_priv"
)


class HealthSummary(NamedTuple):
    """The health of the queue manager, limited to the queues that the caller may see."""

    not_ready: list[str]
    scarce: list[Scarcity]
    dead_letters: list[CountedJson]
    unreachable: list[UnreachableJson]
    claims: list[ClaimJson]
    clocks: list[ClockJson]
    directory: str  # why a shared one is offline
    sequences: list[str]  # what is wrong with those that come in
    damaged: int = 0  # records of messages, undecided
    stopped: str = ""  # damage that stops compaction
    host_change: str = ""  # why the home may be a copy
    unconfirmed: Sequence[health.Unconfirmed] = ()  # outgoing queues whose peer does not confirm
    refused: Sequence[health.RefusedLately] = ()  # in the last hour
    paused: Sequence[Queue] = ()  # outgoing queues with messages
    full: Sequence[Queue] = ()  # queues at their quota, or nearly
    waiting: Sequence[health.Waiting] = ()  # queues with messages that are too old
    failed_jobs: Sequence[health.FailedJobs] = ()
    domain_trouble: str = ""  # why users of a domain cannot log in by NTLM

    def problems(self) -> list[str]:
        """A line for each thing that is wrong, with what to do."""
        lines = [f"new messages are refused: {one.cause}. {one.remedy}" for one in self.scarce]
        dead = sum(one.count for one in self.dead_letters)
        if dead:
            places = ", ".join(f"{one.count:,} in {one.name}" for one in self.dead_letters)
            command = "posthouse deadletters"
            if len(self.dead_letters) == 1:
                command = f"posthouse failures '{self.dead_letters[0].name}'"
            lines.append(f"{counted(dead, 'dead letter')}: {places}. {command}")
        for far in self.unreachable:
            waiting = counted(far.messages, "message")
            lines.append(
                f"{far.queue} cannot connect ({waiting} waiting): {far.reason}. "
                f"posthouse queue show '{far.queue}'"
            )
        lines += map(_unconfirmed_line, self.unconfirmed)
        if self.refused:
            lines.append(_refused_line(self.refused))
        lines += map(_paused_line, self.paused)
        lines += map(_full_line, self.full)
        lines += map(_late_line, self.waiting)
        lines += map(_failed_line, self.failed_jobs)
        for one in self.claims:
            if not one.leased:
                claimed = counted(one.messages, "message")
                lines.append(
                    f"{one.queue}: {claimed} claimed by the group {one.group}, and no reader runs. "
                    f"posthouse group release '{one.queue}' {one.group}, or pipeline settle"
                )
        if self.damaged:
            lines.append(
                f"{counted(self.damaged, 'damaged record')} of messages set aside, everything else "
                "is served. posthouse damage list, then accept"
            )
        if self.stopped:
            lines.append(f"compaction has stopped, so no space is given back: {self.stopped}")
        if self.host_change:
            lines.append(f"{self.host_change}. {COPIED_REMEDY}")
        if self.domain_trouble:
            lines.append(
                f"users of the domain cannot log in by NTLM: {self.domain_trouble}. {DOMAIN_REMEDY}"
            )
        lines += map(_clock_line, self.clocks)
        lines += self.sequences
        if self.directory:
            lines.append(f"the directory is offline: {self.directory}")
        return lines


def summarize_health(
    manager: QueueManager, queues: Collection[Queue], whole: bool
) -> HealthSummary:
    """How it does; `queues` are those that the caller may look at, `whole`: everything."""
    state = manager.directory.state()
    shared_and_away = bool(manager.directory.source) and not state.online
    return HealthSummary(
        not_ready=health.obstacles(manager),
        scarce=scarcities(manager.machine.throttled),
        dead_letters=[
            CountedJson(name=queue.name, count=queue.state.count)
            for queue in health.dead_letters(queues)
        ],
        unreachable=[
            UnreachableJson(queue=far.queue.name, messages=far.queue.state.count, reason=far.reason)
            for far in health.unreachable(queues)[:SHOWN_MAX]
        ],
        claims=[
            ClaimJson(
                queue=one.group.queue.name,
                group=one.group.name,
                messages=one.messages,
                leased=one.leased,
            )
            for one in health.claims(manager, queues)[:SHOWN_MAX]
        ],
        clocks=[
            ClockJson(
                address=one.address,
                behind_s=one.behind_s,
                messages=one.messages,
                seen=time_text(one.seen_utc),
            )
            for one in manager.transfer.clocks_that_differ()[: SHOWN_MAX * whole]
        ],
        sequences=[_sequence_words(one) for one in health.sequences(manager, queues)[:SHOWN_MAX]],
        directory=(state.reason or "it has not answered") if shared_and_away else "",
        damaged=len(manager.machine.damaged_records()),
        stopped=manager.machine.stops_compaction,
        host_change=manager.machine.host_change if whole else "",
        unconfirmed=health.unconfirmed(manager, queues)[:SHOWN_MAX],
        refused=health.refused_lately(manager) if whole else (),
        paused=health.paused(queues)[:SHOWN_MAX],
        full=health.nearly_full(queues)[:SHOWN_MAX],
        waiting=health.waiting_too_long(manager, queues)[:SHOWN_MAX],
        failed_jobs=health.failed_jobs(manager)[:SHOWN_MAX] if whole else [],
        domain_trouble=manager.machine.domain_trouble if whole else "",
    )


def _unconfirmed_line(one: health.Unconfirmed) -> str:
    name = one.queue.name
    return (
        f"{name}: {counted(one.messages, 'message')} sent and not confirmed for {_span(one.age_s)}."
        " The other machine refuses the first, or does not accept the sequence (posthouse message "
        "refused there has the reason), or a router between cannot reach it. "
        f"posthouse queue show '{name}'"
    )


def _refused_line(refused: Sequence[health.RefusedLately]) -> str:
    total = sum(one.messages for one in refused)
    some = "; ".join(
        f"{one.messages:,} for {one.queue} from {one.address}: {one.cause}"
        for one in refused[:REFUSED_SHOWN]
    )
    more = "; and others" if len(refused) > REFUSED_SHOWN else ""
    return (
        f"{counted(total, 'message')} of other machines refused in the last hour: {some}{more}. "
        "posthouse message refused"
    )


def _paused_line(queue: Queue) -> str:
    waiting = counted(queue.state.count, "message")
    return f"{queue.name} is paused ({waiting} waiting). posthouse queue resume '{queue.name}'"


def _full_line(queue: Queue) -> str:
    return (
        f"{queue.name}: {health.fill_percent(queue)} % of its quota of "
        f"{queue.definition.quota_kib:,} KiB is used. Messages that do not fit are refused. "
        f"posthouse queue show '{queue.name}'"
    )


def _late_line(one: health.Waiting) -> str:
    name = one.queue.name
    return (
        f"{name}: the oldest message is {_span(one.age_s)} old. No program reads the queue, or not "
        f"fast enough. posthouse queue show '{name}'"
    )


def _failed_line(one: health.FailedJobs) -> str:
    jobs = counted(one.jobs, "job")
    return f"{one.queue}: {jobs} failed: {one.reason}. posthouse job list {one.queue}"


def _clock_line(one: ClockJson) -> str:
    """What the difference means, and what to do."""
    if one.behind_s < 0:
        return (
            f"the clock here is {_span(-one.behind_s)} slower than that of {one.address}: messages "
            "have expired when they arrive there. Correct the clock of this machine."
        )
    return (
        f"the clock of {one.address} is at least {_span(one.behind_s)} slow: "
        f"{counted(one.messages, 'message')} had expired on arrival. Correct "
        "its clock, or the clock here."
    )


def _span(seconds: int) -> str:
    for size, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return counted(seconds // size, noun)
    return counted(seconds, "second")


def _sequence_words(one: health.Disputed) -> str:
    where = f"posthouse queue sequences '{one.queue.name}'"
    if one.other:
        return (
            f"{one.queue.name}: {one.address} and {one.other} sent different messages with one "
            f"number in a sequence of {one.source}: two queue managers have the same GUID, or one "
            f"pretends to be the other. {where}"
        )
    return (
        f"{one.queue.name}: {counted(one.messages, 'message')} of {one.source} from {one.address} "
        f"not accepted: the messages before them are missing. {where}, then reset-sequence"
    )
