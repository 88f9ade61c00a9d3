"""Handles messages that a stream should read but that are gone: an error, or one warning.

Each kind of loss begins with a word of its own, for alerts. The words are listed in
docs/spark-guarantees.md and do not change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from posthouse.model.errors import MessageAlreadyReceived

_log = logging.getLogger(__name__)
GO_ON: Final = (
    "To go on with what is there set failOnDataLoss to false (archive: --allow-loss); "
    "or begin again with another checkpoint."
)


class LossWord(StrEnum):
    """What begins the message of a loss."""

    PURGED = "POSTHOUSE_QUEUE_PURGED"
    DELETED = "POSTHOUSE_QUEUE_DELETED"
    MISSING = "POSTHOUSE_QUEUE_MISSING"
    MADE_AGAIN = "POSTHOUSE_QUEUE_MADE_AGAIN"
    NOT_READ = "POSTHOUSE_QUEUE_NOT_READ"
    OTHER_MANAGER = "POSTHOUSE_QUEUE_MANAGER_CHANGED"
    HOME_PUT_BACK = "POSTHOUSE_HOME_PUT_BACK"
    OLD_CHECKPOINT = "POSTHOUSE_CHECKPOINT_OLD"
    READ_AGAIN = "POSTHOUSE_READ_AGAIN"


_PUT_BACK: Final = "the home was put back from a copy or a backup"
_WHY: Final = {
    "manager": (
        LossWord.OTHER_MANAGER,
        "another queue manager answers there now, one that was made again",
    ),
    "queue": (LossWord.MADE_AGAIN, "it was deleted and made again since then"),
    "incarnation": (
        LossWord.HOME_PUT_BACK,
        f"this home of the queue manager never gave it: {_PUT_BACK}",
    ),
    "beyond": (
        LossWord.HOME_PUT_BACK,
        f"this home of the queue manager has not given it yet: {_PUT_BACK}",
    ),
}


GO_ON_WITHOUT: Final = (
    "What was in it and not read is lost. To go on without it set failOnDataLoss to false until a "
    "batch is done (archive: --allow-loss), or read a list of queues or a pattern without it."
)


class DataLoss(MessageAlreadyReceived):
    """Messages that a read had still to see are gone."""

    def __init__(self, cause: str, remedy: str = GO_ON) -> None:
        super().__init__(cause, remedy)


class Losses:
    """What becomes of losses: strict readers fail, others go on and are told once of each."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self._told: set[object] = set()

    def found(self, key: object, cause: str, remedy: str = GO_ON) -> None:
        """Raises, or warns unless a loss under this key was told of before."""
        if self.strict:
            raise DataLoss(cause, remedy)
        if key not in self._told:
            self._told.add(key)
            _log.warning("data loss: %s", cause)

    def repeats(self, after: Mapping[str, int], positions: Mapping[str, int], group: str) -> None:
        """Log once where a stream that only looks is to read again what its group has read."""
        for queue in after.keys() & positions.keys():
            if positions[queue] > after[queue] and queue not in self._told:
                self._told.add(queue)
                _log.warning(
                    "%s: %s: the group %s is at lookup id %d, and this checkpoint has read up to "
                    "%d: it was put back from a copy, or another stream has the same group. What "
                    "lies between is read again.",
                    LossWord.READ_AGAIN, queue, group, positions[queue], after[queue],
                )  # fmt: skip


def purged(queue: str, after: int, purged_through: int) -> str:
    """The loss of messages that were purged before they were read."""
    return (
        f"{LossWord.PURGED}: {queue} was purged up to lookup id {purged_through}, "
        f"and this read wanted what lies after {after}"
    )


def not_the_same(queue: str, after: int, loss: str) -> str:
    """The loss of an identity: what the lookup id of an offset meant is not there."""
    word, why = _WHY[loss]
    return f"{word}: {queue}: the checkpoint has read up to lookup id {after}, and {why}"


def deleted(queue: str, after: int) -> str:
    """The loss of a queue that is no longer there."""
    return (
        f"{LossWord.DELETED}: {queue}, of which this checkpoint has read up to lookup id {after}, "
        "was deleted"
    )


def missing(queue: str) -> str:
    """The loss of a queue that is named, and is not there."""
    return f"{LossWord.MISSING}: there is no queue {queue}"


def not_read_now(queue: str, after: int, through: int) -> str:
    """The loss of a part of a batch that was planned with other options."""
    return (
        f"{LossWord.NOT_READ}: the batch that is to be done again has messages ({after}, "
        f"{through}] of {queue}, which this stream does not read now"
    )


def check_loss(queue: str, after: int, known: int, purged_through: int) -> None:
    """Raises where a purge that was not known takes what lies after `after`."""
    if purged_through > max(after, known):
        raise DataLoss(purged(queue, after, purged_through))


def check_position(queue: str, after: int, position: int, group: str) -> None:
    """Raises where a batch that is read again would find nothing of what was acknowledged."""
    if position > after:
        raise DataLoss(
            f"{LossWord.OLD_CHECKPOINT}: group {group} of {queue} has acknowledged everything up "
            f"to lookup id {position}, and this checkpoint wants what lies after {after}",
            "The checkpoint is older than the group: go on from the group's position with a new "
            "checkpoint, or set failOnDataLoss to false (archive: --allow-loss).",
        )
