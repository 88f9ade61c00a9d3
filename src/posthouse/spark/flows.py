r"""Decorators for pipelines of your own: functions over DataFrames.

    from posthouse.spark.flows import reads, sends, table

    @reads(r".\private$\orders")
    def orders(messages):                      # the messages of the queue
        return messages.selectExpr("label", "cast(body as string) as text")

    @table
    def by_label(orders):                      # what the function of that name returned
        return orders.groupBy("label").count()

`posthouse pipeline run FILE` runs it. A parameter named `spark` is the session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Function = Callable[..., DataFrame]

MARK: Final = "__posthouse_step__"
F = TypeVar("F", bound="Callable[..., Any]")


class Step(NamedTuple):
    """A function with the arguments of its decorator."""

    kind: str
    function: Function
    queues: tuple[str, ...] = ()
    stream: bool = False
    consume: bool = False
    group: str = ""
    options: Mapping[str, str] = {}
    partition_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def is_output(self) -> bool:
        """Whether the step writes a table or sends messages."""
        return self.kind in ("table", "send")

    @property
    def parameters(self) -> list[str]:
        """The names of what the function takes."""
        return list(inspect.signature(self.function).parameters)


def _marked(function: F, **said: Any) -> F:
    setattr(function, MARK, Step(function=function, **said))
    return function


def reads(
    *queues: str, stream: bool = False, consume: bool = False, group: str = "", **options: object
) -> Callable[[F], F]:
    """A function of the messages of some queues.

    A snapshot, unless `stream`: then each run goes on where the last one ended. With `consume`
    messages are received when they are safe in the outputs of the run; `group` names the reader
    then. Other options are those of the source.
    """
    texts = {key: str(value) for key, value in options.items()}
    return lambda function: _marked(
        function,
        kind="read",
        queues=queues,
        stream=stream or consume,
        consume=consume,
        group=group,
        options=texts,
    )


def view(function: F) -> F:
    """A function of what others return; nothing of it is kept."""
    return _marked(function, kind="view")


@overload
def table(function: F) -> F: ...


@overload
def table(*, partition_by: Sequence[str] = ()) -> Callable[[F], F]: ...


def table(function: F | None = None, *, partition_by: Sequence[str] = ()) -> Any:
    """A function whose rows are written as Parquet, to a folder of its name."""

    def mark(marked: F) -> F:
        return _marked(marked, kind="table", partition_by=tuple(partition_by))

    return mark if function is None else mark(function)


def sends(queue: str = "", **options: object) -> Callable[[F], F]:
    """A function whose rows are sent: to a queue, or by their column `destination`.

    Other options are those of the sink. A snapshot is sent again by each run; of a stream each
    message is sent once, whatever happens.
    """
    texts = {key: str(value) for key, value in options.items()}
    queues = (queue,) if queue else ()
    return lambda function: _marked(function, kind="send", queues=queues, options=texts)


def steps_of(names: Mapping[str, object]) -> dict[str, Step]:
    """The steps of a file, in their order."""
    found = (getattr(value, MARK, None) for value in names.values() if callable(value))
    return {step.name: step for step in found if isinstance(step, Step)}
