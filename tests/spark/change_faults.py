"""Remedies of the pipeline taken out, one at a time: the change test has to notice each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from posthouse.client.arrow_read import LookupIdentity
from posthouse.engine.pipelines import groups
from posthouse.engine.pipelines.stage import PublishResult, Query
from posthouse.engine.pipelines.stages import Stages
from posthouse.protocols.handlers import read_plans as handlers_plan
from posthouse.spark import queue_selection, sink
from posthouse.spark import stream_planner as course
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.stream_planner import Course

Patch = pytest.MonkeyPatch


def claims_without_beginning(patch: Patch) -> None:
    """A claim reaches from the group's position, whatever the batch begins with (L3, L5)."""

    def whole(group: Any, asked: Any) -> tuple[int, int]:
        definition = group.definition
        return definition.position, max(definition.claimed, asked.through)

    patch.setattr(groups, "claimed_range", whole)


def offsets_without_identity(patch: Patch) -> None:
    """An offset is a number, whichever queue manager gave it (L3, L6)."""
    patch.setattr(StreamOffset, "identity", lambda offset, queue: LookupIdentity())
    _no_incarnation_in_claims(patch)


def ids_beyond_the_last_are_nothing_new(patch: Patch) -> None:
    """An identifier that was not given yet is waited for (L6)."""
    real = handlers_plan.goes_on

    def goes_on(manager: Any, queue: Any, asked: Any) -> Any:
        after, known = real(manager, queue, asked)
        if known.loss in ("beyond", "incarnation"):
            known.loss, after = "", asked.after
        return after, known

    patch.setattr(handlers_plan, "goes_on", goes_on)
    _no_incarnation_in_claims(patch)


def _no_incarnation_in_claims(patch: Patch) -> None:
    real = course.Claim
    patch.setattr(course, "Claim", lambda *values: real(*values)._replace(incarnation=""))


def queues_left_out_are_done(patch: Patch) -> None:
    """What a batch planned in a queue that is not read now counts as read (L2, A3)."""
    patch.setattr(Course, "_leave_out", lambda *values: None)


def lower_batches_are_published(patch: Patch) -> None:
    """A batch with a number below the last one was published before (L4)."""
    real = Stages._is_published

    def is_published(stages: Stages, query: str, batch: int, signature: Any) -> bool:
        known = stages.queries.get(query)
        if known is not None and batch < known.batch:
            return True
        return real(stages, query, batch, signature)

    real_publish = Stages.publish

    def publish(stages: Stages, query: str, batch: int, *rest: Any) -> Any:
        known = stages.queries.get(query)
        if known is not None and batch < known.batch:
            return PublishResult(known.messages, True)
        return real_publish(stages, query, batch, *rest)

    patch.setattr(Stages, "_is_published", is_published)
    patch.setattr(Stages, "publish", publish)


def equal_numbers_are_equal_batches(patch: Patch) -> None:
    """A batch with the number of the last one is the last one, whatever is in it (L4)."""
    patch.setattr(Query, "is_same", lambda known, other: True)


def two_writes_are_one(patch: Patch) -> None:
    """Both writes of a `foreachBatch` have one name (L1)."""
    patch.setattr(sink, "written_as", lambda query, queue: query)
    equal_numbers_are_equal_batches(patch)


def names_may_be_shared(patch: Patch) -> None:
    """Two queue managers of one computer name are read together (W1)."""
    for module in (course, queue_selection):
        patch.setattr(module, "check_names", lambda endpoints: None)


def leases_are_taken_over(patch: Patch) -> None:
    """A second reader takes the lease of one that lives (D1)."""
    patch.setattr(groups.Groups, "is_leased", lambda groups, group: False)


def last_batches_stay_claimed(patch: Patch) -> None:
    """The batch that ends at `start` is not acknowledged when the next one is asked for."""
    patch.setattr(Course, "_acknowledge", lambda *values: None)


class Fault(NamedTuple):
    """One that is planted, and the first history of those in which it has to be found."""

    plant: Callable[[Patch], None]
    first: int = 0


FAULTS: Mapping[str, Fault] = {
    fault.plant.__name__: fault
    for fault in (
        Fault(claims_without_beginning, 21),
        Fault(offsets_without_identity, 96),
        Fault(ids_beyond_the_last_are_nothing_new, 85),
        Fault(queues_left_out_are_done, 3),
        Fault(lower_batches_are_published, 57),
        Fault(equal_numbers_are_equal_batches, 224),
        Fault(two_writes_are_one, 5),
        Fault(names_may_be_shared, 8),
        Fault(leases_are_taken_over, 99),
        Fault(last_batches_stay_claimed, 4),
    )
}
