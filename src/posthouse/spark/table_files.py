"""Writes result tables as files, complete or not at all, and as text."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EISDIR
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Union

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from posthouse.client.replaced_files import take_over
from posthouse.model.errors import InvalidParameter
from posthouse.spark.rows.values import Values, cells_of, names_of, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Frame = Union["DataFrame", pa.Table]
"""Rows of Spark's, or of this process."""

# How texts begin that spreadsheets take for formulas, and what is one of these only by its sign.
_FORMULA: Final = frozenset("=+-@\t\r")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
AT_ONCE: Final = 5000  # rows of one group of a Parquet file


@contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A file beside the one that is meant; it takes its place when all is written.

    It is as private as an earlier one; without an earlier one a private file is for its owner
    alone. Devices and pipes are written as they are.
    """
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))  # a link stays, such as /dev/stdout
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    model = path.stat() if path.exists() else None
    try:
        if private or model is not None:
            partial.touch(0o600)
        yield partial
        if model is not None:
            with partial.open("rb") as file:
                take_over(file.fileno(), model)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_parquet(path: Path, frame: Frame) -> int:
    """All rows of a frame in one file; returns how many."""
    schema = arrow_schema(frame)
    cells, written = cells_of(frame), 0
    with (
        new_file(path, private=True) as partial,
        pq.ParquetWriter(partial, schema) as writer,
    ):
        while portion := list(islice(cells, AT_ONCE)):
            columns = zip(*portion, strict=True)
            arrays = [
                pa.array(_for_arrow(column, field.type), field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            written += len(portion)
    return written


def arrow_schema(frame: Frame) -> pa.Schema:
    """The schema of a frame in Arrow's types; what Parquet does not take is refused."""
    if isinstance(frame, pa.Table):
        return frame.schema
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in frame.schema.fields:
        if _has_variant(field.dataType):
            raise InvalidParameter(
                f"the column {field.name!r} is a variant, which Parquet does not take",
                "Cast it to a string in the statement, or choose another format.",
            )
    return to_arrow_schema(frame.schema, timezone="UTC")


def _for_arrow(column: Iterable[Any], data_type: pa.DataType) -> list[Any]:
    """pyarrow takes a map as a list of pairs."""
    if not pa.types.is_map(data_type):
        return list(column)
    return [None if value is None else list(value.items()) for value in column]


def _has_variant(data_type: DataType) -> bool:
    return "variant" in data_type.simpleString()


def write_values(path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Rows that the driver has, in one file."""
    table = pa.Table.from_pylist(list(rows), schema)
    with new_file(path, private=True) as partial:
        pq.write_table(table, partial)


def write_file(path: Path, frame: Frame, form: str) -> int:
    """All rows of a frame in one file: `parquet`, `json` (a line for each) or `csv`."""
    if form == "parquet":
        return write_parquet(path, frame)
    lines = map(_json_line, json_rows(frame)) if form == "json" else csv_lines(frame)
    written = 0 if form == "json" else -1  # the line with the names is not a row
    with (
        new_file(path, private=True) as partial,
        partial.open("w", encoding="utf-8", errors="replace") as out,
    ):
        for line in lines:
            out.write(line + "\n")
            written += 1
    return written


def _json_line(row: Values) -> str:
    return msgspec.json.encode(row).decode()


def csv_lines(frame: Frame) -> Iterator[str]:
    """A line with the names, and one for each row; a line of CSV may have several of text.

    A text that a spreadsheet would run as a formula gets an apostrophe in front of it. Values of
    other types do not, such as bytes, whose base64 may begin with a plus.
    """
    yield _csv_line(map(_without_formula, names_of(frame)))
    for cells in cells_of(frame):
        yield _csv_line(map(_without_formula, cells))


def _without_formula(value: Any) -> str:
    text = _text(value)
    is_formula = isinstance(value, str) and text[:1] in _FORMULA and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _csv_line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def json_rows(frame: Frame) -> Iterator[Values]:
    """Rows as values that JSON has."""
    names = names_of(frame)
    for cells in cells_of(frame):
        yield {name: plain(value) for name, value in zip(names, cells, strict=True)}


def first_rows(frame: Frame, rows_max: int) -> Frame:
    """The first rows of a table; the others are not computed."""
    return frame.slice(0, rows_max) if isinstance(frame, pa.Table) else frame.limit(rows_max)


def text_rows(frame: Frame) -> Iterator[list[str]]:
    """Rows as texts; structures are JSON, what is null is empty."""
    return ([_text(value) for value in cells] for cells in cells_of(frame))


def _text(value: Any) -> str:
    simple = plain(value)
    if isinstance(simple, dict | list):
        return msgspec.json.encode(simple).decode()
    return "" if simple is None else str(simple)
