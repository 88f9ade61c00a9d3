"""The base of all reports: tables of rows that Spark keeps until the report is closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame


class Report:
    """A report; `close` it, or use `with`."""

    def __init__(self, kept: DataFrame) -> None:
        self._kept = kept.persist()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is kept from now on."""
        self._kept.unpersist()
