"""Rows of a table to rows of a stage: which column is which property, and which rows are bad.

Decided once, when a write is planned: unknown columns, wrong types and missing ones are refused
there. Batches of rows then only pass through, checked and cast as Arrow arrays.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from posthouse.client.packets import Options, PacketMaker
from posthouse.model.errors import IllegalPropertyValue, InvalidParameter, QueueError
from posthouse.model.message import MESSAGE_SIZE_MAX
from posthouse.model.message_columns import BODY_TEXT, DECODED_NAMES, NAMES
from posthouse.spark.rows.bodies import (
    Bodies,
    binary_bodies,
    json_writer,
    structured_bodies,
    text_bodies,
    xml_writer,
)
from posthouse.spark.rows.columns import (
    BY_NAME,
    ID_COLUMN,
    Fault,
    Form,
    StageColumn,
    accepts,
    straight_delivery,
)

XML_ROOT: Final = "message"
# Columns of received messages that cannot be set: they are left out silently, so that the rows of
# one queue can be written to another.
IGNORED: Final = frozenset({*NAMES, BODY_TEXT.name, *DECODED_NAMES}) - BY_NAME.keys()
_WITH_ID: Final = {**BY_NAME, ID_COLUMN.name: ID_COLUMN}
_HEADERS_MAX: Final = 64 << 10  # more than headers and names of a packet take
_LONG_NAME: Final = "DIRECT=OS:" + "x" * 15 + "\\private$\\" + "x" * 114  # nearly all are shorter


class Checked(NamedTuple):
    """A batch in the columns of a stage, bad rows among the others, and which those are."""

    batch: Any  # pyarrow.RecordBatch
    faults: list[Fault]  # by row


class RowMap:
    """How rows of one schema become messages. It is pickled with the writer."""

    def __init__(
        self,
        schema: Any,
        constants: Mapping[str, Any],
        *,
        body_format: str = "json",
        xml_root: str = XML_ROOT,
        straight: bool = False,
        same_ids: bool = False,
        destinations: bool = True,
    ) -> None:
        self._constants = {name: value for name, value in constants.items() if value is not None}
        _refuse_unknown(schema)
        known = dict(_WITH_ID if same_ids else BY_NAME)
        if not destinations:  # one for all is named elsewhere, and goes before the column
            del known["destination"]
        self._sources = _sources(schema, known, self._constants)
        self._body_format = body_format
        self._xml_root = xml_root
        self._straight = straight
        self._check_constants()
        self._writer(schema.field(self._sources["body"]).type)

    @property
    def columns(self) -> list[StageColumn]:
        """The properties that come from a column or an option."""
        names = {*self._sources, *self._constants}
        return [column for name, column in _WITH_ID.items() if name in names]

    @property
    def schema(self) -> Any:
        """The columns of the stage."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])

    @property
    def has_destinations(self) -> bool:
        """Whether each row states where it goes."""
        return "destination" in self._sources

    def check(self, batch: Any) -> Checked:
        """The rows as rows of a stage; nothing of them passes through Python where all is well."""
        arrays: dict[str, Any] = {}
        faults: list[Fault] = []
        for column in self.columns:
            if column.form is not Form.BODY:
                arrays[column.name], found = self._column(batch, column)
                faults += found
        bodies = self._bodies(batch.column(self._sources["body"]), arrays.get("body_type"))
        arrays["body"] = bodies.array
        faults += bodies.faults + _too_large(arrays)
        made = pa.RecordBatch.from_arrays(
            [arrays[c.name] for c in self.columns], schema=self.schema
        )
        return Checked(made, _first_of_each_row(faults))

    def _column(self, batch: Any, column: StageColumn) -> tuple[Any, list[Fault]]:
        constant = self._constants.get(column.name)
        if constant is not None:
            return pa.repeat(pa.scalar(constant, column.arrow), batch.num_rows), []
        array = _uniform(batch.column(self._sources[column.name]), column)
        faults = self._faults(column, array)
        if faults and column.form is Form.NUMBER:  # it may not even fit
            array = _without(array, faults)
        return array.cast(column.arrow), faults

    def _faults(self, column: StageColumn, array: Any) -> list[Fault]:
        if self._straight and column.name == "delivery":
            return straight_delivery(column.name, array)
        return column.faults(column.name, array)

    def _bodies(self, array: Any, body_types: Any) -> Bodies:
        if not pa.types.is_nested(array.type):
            text = body_types is not None and not _is_binary(array.type)
            return text_bodies(array, body_types) if text else binary_bodies(array)
        return structured_bodies(array, self._writer(array.type))

    def _writer(self, arrow: Any) -> Callable[[Any], bytes]:
        if self._body_format == "xml" and pa.types.is_nested(arrow):
            return xml_writer(arrow, self._xml_root)
        return json_writer(arrow)

    def _check_constants(self) -> None:
        """Checks the options that set a column for every row, when the write is planned."""
        for name, value in self._constants.items():
            column = BY_NAME[name]
            faults = self._faults(column, pa.array([value], _wide(column)))
            if faults:
                raise IllegalPropertyValue(f"the option {name}: {faults[0].cause}")


def _refuse_unknown(schema: Any) -> None:
    for name in schema.names:
        if name in BY_NAME or name in IGNORED:
            continue
        near = difflib.get_close_matches(name[:64].lower(), list(BY_NAME), 1, 0.0)[0]
        raise InvalidParameter(
            f"a message has no column {name!a}; the nearest is {near}",
            "Rename it or leave it out; to send all columns as one body: "
            "select(struct('*').alias('body')).",
        )
    for name in BY_NAME:
        if schema.names.count(name) > 1:
            raise InvalidParameter(f"there are two columns {name}", "Leave one of them out.")


def _sources(
    schema: Any, known: Mapping[str, StageColumn], constants: Mapping[str, Any]
) -> dict[str, int]:
    """Which column of the table each property comes from; an option goes before a column."""
    found = {}
    for index, field in enumerate(schema):
        column = known.get(field.name)
        if column is None or column.name in constants:
            continue
        if not accepts(column.form, field.type):
            raise InvalidParameter(
                f"the column {field.name} has the type {field.type}; it has to be "
                f"{column.form.value}",
                "Cast it.",
            )
        found[field.name] = index
    if "body" not in found:
        raise InvalidParameter(
            "there is no column body",
            "Name one so; to send all columns as one body: select(struct('*').alias('body')).",
        )
    return found


def _uniform(array: Any, column: StageColumn) -> Any:
    """Of the few types that a form accepts, one."""
    if column.form is Form.WORDS and not pa.types.is_list(array.type):
        return _split_words(array.cast(pa.string()))
    return array.cast(_wide(column))


def _wide(column: StageColumn) -> Any:
    """The type in which values are checked: numbers may be too large for theirs."""
    return pa.int64() if column.form is Form.NUMBER else column.arrow


def _split_words(array: Any) -> Any:
    """Words joined by commas, as in the command line."""
    lists = pc.split_pattern(pc.replace_substring(array, " ", ""), ",")
    none = pa.scalar([], lists.type)
    return pc.if_else(pc.equal(array, ""), none, lists)


def _without(array: Any, faults: list[Fault]) -> Any:
    rows = pa.array([fault.row for fault in faults], pa.int64())
    bad = pc.is_in(pa.array(range(len(array)), pa.int64()), rows)
    return pc.if_else(bad, pa.scalar(None, array.type), array)


def _is_binary(arrow: Any) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def _too_large(arrays: Mapping[str, Any]) -> list[Fault]:
    """Only where a body comes near the limit is the packet made, to see how large it is."""
    bodies = arrays["body"]
    sizes = pc.fill_null(pc.binary_length(bodies), 0)
    if "extension" in arrays:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(arrays["extension"]), 0))
    near = pc.indices_nonzero(pc.greater(sizes, MESSAGE_SIZE_MAX - _HEADERS_MAX))
    causes = ((row, _why_too_large(arrays, row, sizes[row].as_py())) for row in near.to_pylist())
    return [Fault(row, "body", cause) for row, cause in causes if cause]


def _why_too_large(arrays: Mapping[str, Any], row: int, size: int) -> str:
    if size > MESSAGE_SIZE_MAX:
        return f"{size} bytes are more than a message holds: {MESSAGE_SIZE_MAX} with its headers"
    value = partial(_value, arrays, row)
    how = Options(
        label=value("label") or "",
        extension=value("extension") or b"",
        response_queue=value("response_queue") or "",
        admin_queue=value("admin_queue") or "",
    )
    try:
        PacketMaker(_LONG_NAME, "x" * 15).packet(value("body") or b"", how, True)
    except QueueError as error:
        return str(error.cause)
    return ""


def _value(arrays: Mapping[str, Any], row: int, name: str) -> Any:
    return arrays[name][row].as_py() if name in arrays else None


def _first_of_each_row(faults: list[Fault]) -> list[Fault]:
    if not faults:
        return []
    first: dict[int, Fault] = {}
    for fault in faults:
        first.setdefault(fault.row, fault)
    return [first[row] for row in sorted(first)]
