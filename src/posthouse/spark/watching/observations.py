"""Observations of queues, as pure values: times are seconds since 1970."""

from __future__ import annotations

from typing import NamedTuple


class QueueSample(NamedTuple):
    """A queue at one moment; `oldest_s` is when its oldest message arrived, None: it is empty."""

    queue: str
    messages: int
    oldest_s: float | None


class SeenMessage(NamedTuple):
    """A message that was not there at the look before.

    `queue` is where it lies. In the journal of a queue `arrived_s` is when it was received.
    """

    queue: str
    id: str
    arrived_s: float
    sent_s: float
    sender: str = ""
    source: str = ""
    correlation: str = ""  # the id of the message that it answers, empty: none
    wants_answer: bool = False
    reason: str = ""  # the class, where it is not a plain message
    destination: str = ""
    shape: str = ""  # of its body


class Look(NamedTuple):
    """One look at all queues that are watched."""

    now_s: float
    queues: tuple[QueueSample, ...] = ()
    messages: tuple[SeenMessage, ...] = ()


class Alarm(NamedTuple):
    """Something to look at, or, with `is_over`, that it has passed."""

    rule: str
    subject: str  # a queue, a cluster, a request, a sender
    text: str
    at_s: float
    figure: float = 0.0
    is_over: bool = False
