"""What DuckDB answers is what Spark answers: rows, order, names of columns, types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import to_arrow_schema

from posthouse.spark.queries.query import sql
from posthouse.spark.queries.small.answers import answer
from posthouse.spark.queries.small.calls import NAMES
from posthouse.spark.rows.values import cells_of
from tests.conftest import Dose
from tests.spark.sql_samples import Samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = Path(__file__).with_name("same_answers.sql").read_text("utf-8").splitlines()


def spark_answer(spark: SparkSession, statement: str) -> tuple[Any, ...]:
    frame = sql(spark, statement, Samples())
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    return frame.columns, [field.type for field in schema], list(cells_of(frame))


def small_answer(statement: str) -> tuple[Any, ...]:
    found = answer(statement, Samples())
    return found.column_names, [field.type for field in found.schema], list(cells_of(found))


def test_both_engines_give_the_same(spark: SparkSession, dose: Dose) -> None:
    different = []
    for statement in STATEMENTS[:: dose(3, 1)]:
        wanted, given = spark_answer(spark, statement), small_answer(statement)
        different += [] if wanted == given else [(statement, wanted, given)]
    assert different == []


def test_every_function_without_spark_is_compared() -> None:
    compared = "\n".join(STATEMENTS).lower()
    assert [name for name in sorted(NAMES) if f"{name}(" not in compared] == []
