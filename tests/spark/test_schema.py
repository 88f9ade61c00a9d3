"""Schemas of messages, and what record batches have to say of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType

from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.model.message_columns import BY_NAME
from posthouse.spark.schema import check_schema, message_schema, never_null, promised, spark_type


def test_an_exact_schema_knows_the_columns_that_every_message_has() -> None:
    columns = ("label", "transaction", "time_to_be_received", "body_text")
    assert never_null(message_schema(columns, exact=True)) == {"label"}
    assert never_null(message_schema(columns)) == frozenset()


def test_a_batch_says_the_same_of_its_columns_as_the_schema() -> None:
    batch = pa.RecordBatch.from_pydict({"label": ["one", "two"], "time_to_be_received": [1, None]})
    shaped = promised(batch, {"label"})
    assert [field.nullable for field in shaped.schema] == [False, True]
    assert shaped.to_pydict() == batch.to_pydict()


def test_a_null_where_none_can_be_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"label": ["one", None]})
    with pytest.raises(RemoteProtocolError, match="without label"):
        promised(batch, {"label"})
    assert promised(batch, ()).num_rows == 2


@pytest.mark.parametrize("name", ["body_text", "transaction", "time_to_be_received"])
def test_a_schema_that_forbids_nulls_where_some_are_names_the_column(name: str) -> None:
    """And is told so before anything is read; the server is not to blame."""
    kind = spark_type(BY_NAME[name].kind)
    schema = StructType([StructField("id", spark_type(BY_NAME["id"].kind), nullable=False)])
    with pytest.raises(InvalidParameter, match=f"column {name} is never null.*Leave NOT NULL out"):
        check_schema(StructType([*schema.fields, StructField(name, kind, nullable=False)]))
    assert check_schema(StructType([*schema.fields, StructField(name, kind)])) == ["id", name]
