"""The tables that statements can name, whichever engine answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.spark.queries.small.tree import KindOf

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

CATALOG: Final = "posthouse"
"""The first part of names with three: `posthouse.MANAGER.QUEUE`."""
SHOWN: Final = "namespace string, table string, reads string"


class TableSize(NamedTuple):
    """How much a table has."""

    rows: int
    bytes: int


class ArrowReader(Protocol):
    """A table that can be read without Spark."""

    def kinds(self) -> Mapping[str, KindOf]:
        """Its columns, in order."""

    def size(self) -> TableSize:
        """How much there is to read now."""

    def read(self, columns: Sequence[str], rows_max: int | None = None) -> pyarrow.Table:
        """Its rows, or the first of them, with these columns."""


class LoadLess(Protocol):
    """A table of Spark's of which not everything is read."""

    def __call__(
        self, spark: SparkSession, columns: Collection[str] | None = None, pushes: bool = False
    ) -> DataFrame:
        """With those of the columns that it has; `pushes`: filters narrow the read."""


class Table(NamedTuple):
    """Something that a statement can read; a namespace has one part, or two in the catalog."""

    namespace: str
    name: str
    reads: str
    load: Callable[[SparkSession], DataFrame]
    arrow: ArrowReader | None = None
    load_less: LoadLess | None = None

    @property
    def title(self) -> str:
        """All parts of its name."""
        return f"{self.namespace}.{self.name}"

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        """What may come before a column of it, in small letters: its name, with more and more of
        what it lies in."""
        parts = (*self.namespace.split(".", 1), self.name.lower())
        return tuple(parts[first:] for first in reversed(range(len(parts))))


class Tables(Protocol):
    """The tables there are."""

    def find(self, namespace: str, name: str) -> Table | None:
        """The one of that name, whatever its case."""

    def all(self) -> Iterable[Table]:
        """All of them, for SHOW TABLES."""


def table_of(parts: Sequence[str], tables: Tables) -> Table:
    """The table of a name in a statement; an unknown one is refused, with the nearest there is."""
    *within, last = (part.lower() for part in parts)
    found = tables.find(".".join(within), last) if 1 <= len(within) <= 2 else None
    if found is not None:
        return found
    name = ".".join(parts)
    in_catalog = len(within) == 2
    titles = [one.title for one in tables.all() if ("." in one.namespace) == in_catalog]
    near = get_close_matches(name.lower()[:80], titles, 1, 0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise InvalidParameter(f"there is no table {excerpt(name)}", f"{hint}SHOW TABLES lists them.")


def shown_tables(tables: Tables, namespace: str, pattern: str) -> list[tuple[str, str, str]]:
    """What SHOW TABLES lists."""
    return [
        (table.namespace, table.name, table.reads)
        for table in sorted(tables.all(), key=lambda table: table.title)
        if _lists(namespace.lower(), table.namespace) and _matches(table.name, pattern)
    ]


def _lists(asked: str, namespace: str) -> bool:
    """Without a namespace the catalog is left out, which has the same queues by longer names."""
    if not asked:
        return "." not in namespace
    return asked == namespace or namespace.startswith(f"{asked}.")


def _matches(name: str, pattern: str) -> bool:
    """As Spark has it: `*` for anything, `|` between patterns, in any case."""
    return any(
        fnmatchcase(name.lower(), one.strip().lower().replace("[", "[[]").replace("?", "[?]"))
        for one in pattern.split("|")
    )
