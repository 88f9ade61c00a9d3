"""Errors of our own in Spark's Python workers: the cause in one line, without the worker's trace.

Spark puts the trace of a worker into its own error. What a queue manager refuses needs none. A
worker ends after its first error, so what is set here holds for that one alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TypeVar

from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError

HIDDEN: Final = "SPARK_HIDE_TRACEBACK"
"""What PySpark's workers look at when they describe an error."""
OURS: Final = (QueueError, ClientConnectionError)
_Class = TypeVar("_Class", bound=type)


def plain_errors(*methods: str) -> Callable[[_Class], _Class]:
    """Decorates a class: errors of ours that these methods raise come without a trace."""

    def decorate(made: _Class) -> _Class:
        for name in methods:
            setattr(made, name, _plain(getattr(made, name)))
        return made

    return decorate


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*values: Any, **named: Any) -> Any:
        try:
            found = method(*values, **named)
        except OURS:
            os.environ[HIDDEN] = "1"
            raise
        return _rows(found) if isinstance(found, Iterator) else found

    return call


def _rows(found: Iterator[Any]) -> Iterator[Any]:
    """Rows as they come; what goes wrong in between is plain too."""
    try:
        yield from found
    except OURS:
        os.environ[HIDDEN] = "1"
        raise
