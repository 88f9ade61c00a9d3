"""Finds the messages of a lake for which a condition in SQL holds.

`erase` asks here, so that a condition means what it means in `pipeline sql` and `replay`: DuckDB
answers what it surely answers as Spark does, and Spark the rest. A condition looks at one message
at a time, so the files are asked in portions, and DuckDB is enough for a lake of any size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.state import LakeFile, LakeState
from posthouse.spark.queries.arrow_tables import FileRows
from posthouse.spark.queries.catalog import Table
from posthouse.spark.queries.small import tree
from posthouse.spark.queries.small.answers import BYTES_MAX, answer, is_installed
from posthouse.spark.queries.small.parser import Shown, parse
from posthouse.spark.queries.small.tokens import NeedsSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY: Final = ("queue", "lookup_id")
NAMESPACE: Final = "lake"
TABLE: Final = "messages"
Ids = dict[str, list[int]]
"""Lookup ids in order, by queue."""
Sessions = Callable[[], "SparkSession"]
"""Starts Spark, where it is needed."""


def matching(lake: LakeFiles, state: LakeState, where: str, spark: Sessions | None = None) -> Ids:
    """Return the messages for which a condition holds, by queue and lookup id."""
    statement = f"SELECT {', '.join(KEY)} FROM {NAMESPACE}.{TABLE} WHERE (\n{where}\n)"
    try:
        if not is_installed():
            raise NeedsSpark("DuckDB is not installed")
        _check_one_message(statement)
        found = [
            answer(statement, _LakeTable(FileRows(lake, files)), bytes_max=None)
            for files in _portions(state.files)
        ]
    except NeedsSpark:
        found = [_spark_answer(lake, state, where, spark)]
    except InvalidParameter as error:
        raise _unfit(error.cause, error.remedy) from None
    return _by_queue(found)


def _check_one_message(statement: str) -> None:
    """Refuse a text that closes its bracket and goes on with something else."""
    try:
        parsed = parse(statement)
    except RecursionError:
        raise NeedsSpark("it is very long") from None
    assert not isinstance(parsed, Shown), "it begins with SELECT"
    select = parsed.query.selects[0]
    plain = tree.Select(select.items, False, select.first, where=select.where)
    if parsed != tree.Parsed((), tree.Query((plain,))):
        raise InvalidParameter("it has more than a condition", "")


def _unfit(cause: str, remedy: str = "") -> InvalidParameter:
    return InvalidParameter(
        f"the condition does not fit: {cause}",
        remedy or "It is SQL over the columns of a message, which docs/spark-options.md lists.",
    )


def _portions(files: Iterable[LakeFile]) -> Iterator[list[LakeFile]]:
    """Cut files into portions that DuckDB reads at once; an empty lake is one, for its columns."""
    portion: list[LakeFile] = []
    size = 0
    for file in files:
        if portion and size + file.bytes > BYTES_MAX // 4:
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += file.bytes
    yield portion


def _spark_answer(
    lake: LakeFiles, state: LakeState, where: str, sessions: Sessions | None
) -> pa.Table:
    from posthouse.spark.lakes.table import lake_session, read_files
    from posthouse.spark.queries.guard import guarded_session
    from posthouse.spark.selection import check_where, filtered
    from posthouse.spark.sessions import classic

    spark = guarded_session(classic((sessions or lake_session)(), "erase"))
    try:
        check_where(spark, where)
        return filtered(read_files(spark, lake, state.files), where).select(*KEY).toArrow()
    except InvalidParameter as error:
        raise _unfit(error.cause, error.remedy) from None


def _by_queue(tables: Iterable[pa.Table]) -> Ids:
    found: Ids = defaultdict(list)
    for table in tables:
        queues, numbers = (table.column(name).to_pylist() for name in KEY)
        for queue, number in zip(queues, numbers, strict=True):
            found[queue].append(number)
    return {queue: sorted(ids) for queue, ids in found.items()}


class _LakeTable:
    """The one table that a condition is about."""

    def __init__(self, rows: FileRows) -> None:
        self._table = Table(NAMESPACE, TABLE, "the lake", _not_loaded, rows)

    def find(self, namespace: str, name: str) -> Table | None:
        """Return it, if it is named."""
        return self._table if (namespace, name) == (NAMESPACE, TABLE) else None

    def all(self) -> Iterable[Table]:
        """Return it."""
        return [self._table]


def _not_loaded(spark: SparkSession) -> NoReturn:
    raise NeedsSpark("DuckDB reads files here")
