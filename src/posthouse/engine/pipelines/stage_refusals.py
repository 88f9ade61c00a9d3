"""The errors for batches that cannot be published."""

from __future__ import annotations

from typing import Final

from posthouse.model.errors import InsufficientResources, TransactionSequence

ASKING_MAX: Final = 2_000
"""Messages of one batch whose arrival has consequences; they go one by one."""


class TooManyAsk(InsufficientResources):
    """More messages of a batch ask for something on arrival than one turn can bear."""

    default_remedy = (
        "Write smaller batches (maxMessagesPerTrigger), or leave out the columns journal and "
        "acknowledge."
    )

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a batch has at most {limit} messages that ask for a copy in the journal or an "
            "acknowledgment of their arrival, in queues of this machine"
        )


class BatchPast(TransactionSequence):
    """A query comes with a batch below the last one that it published: it was begun again."""

    def __init__(self, query: str, batch: int, last: int) -> None:
        super().__init__(
            f"the query {query} has published its batch {last}, and now comes with batch {batch}: "
            "its checkpoint was reset, or put back from a copy",
            "Nothing of it was published. Use a new checkpoint (Spark keeps the query's id in "
            f"its file `metadata`) or another queryId; or, to begin again with the same: "
            f"posthouse stage forget '{query}'",
        )


class BatchDiffers(TransactionSequence):
    """A query comes with another batch under the number of the last one that it published."""

    def __init__(self, query: str, batch: int, why: str) -> None:
        super().__init__(
            f"the query {query} has published its batch {batch}, and now comes with another one "
            f"under this number: {why}",
            "Nothing of it was published. Give each write of a batch a queryId of its own; if the "
            "checkpoint was reset use a new one, or another queryId; or, to begin again with the "
            f"same: posthouse stage forget '{query}'",
        )


class StageMissing(TransactionSequence):
    """A stage that is to be published is unknown, or was dropped."""

    default_remedy = "Write the batch again: nothing of it was published."
