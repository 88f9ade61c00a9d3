"""SQL functions that decode message bodies in a lake or any other table.

`decode_message` gives all columns that a read with `decode` has, `decode_text` the content for
people. They run in Spark's Python workers, which need this package as the source does.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from posthouse.formats import Decoded
from posthouse.model.message_columns import DECODED_NAMES
from posthouse.spark.rows.decoded import Row, as_text, decoded_row, values_of
from posthouse.spark.rows.variants import variant_of
from posthouse.spark.schema import VALUE_TYPE, message_schema

DECODE_MESSAGE: Final = "decode_message"
DECODE_TEXT: Final = "decode_text"
FUNCTIONS: Final = frozenset({DECODE_MESSAGE, DECODE_TEXT})
"""Their names, which no function of Spark has."""
_AS_TEXT: Final = StringType() == VALUE_TYPE
_INTEGER_MAX: Final = 0xFFFFFFFF


def register_functions(spark: SparkSession) -> None:
    """Lets statements of a session call them; `posthouse.spark.session` has done so."""
    schema = message_schema(DECODED_NAMES)
    spark.udf.register(DECODE_MESSAGE, F.udf(decode_message, schema, useArrow=False))
    spark.udf.register(DECODE_TEXT, F.udf(decode_text, StringType(), useArrow=False))


def decode_message(
    body: Any,
    body_type: Any = 0,
    extension: Any = b"",
    label: Any = "",
    app_specific: Any = 0,
    correlation_id: Any = "",
    code_page: Any = "",
) -> tuple[Any, ...] | None:
    """What is in a message, as a struct; null where there is no body."""
    if body is None:
        return None
    row = Row(
        _octets(body),
        _number(body_type),
        _octets(extension),
        _text(label),
        _number(app_specific),
        _text(correlation_id),
    )
    found = decoded_row(row, _text(code_page))
    values = values_of(found, as_text if _AS_TEXT else _as_value)
    return tuple(dict(value) if isinstance(value, list) else value for value in values)


def decode_text(
    body: Any, body_type: Any = 0, extension: Any = b"", code_page: Any = ""
) -> str | None:
    """What is in a body, for people: indented, up to a limit; null where there is no body."""
    if body is None:
        return None
    row = Row(_octets(body), _number(body_type), _octets(extension))
    found: Decoded = decoded_row(row, _text(code_page))
    return found.text


def _as_value(value: Any) -> Any:
    """A value as Spark takes a VARIANT from a function."""
    from pyspark.sql.types import VariantVal

    return VariantVal(*variant_of(value))


def _octets(value: Any) -> bytes:
    """Bytes of whatever a statement hands over."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return _text(value).encode("utf-8", "replace")


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any) -> int:
    """A whole number of 32 bits; anything else is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number <= _INTEGER_MAX else 0
