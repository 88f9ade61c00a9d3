"""Schemas of messages, and what record batches have to say of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from posthouse.model.errors import RemoteProtocolError
from posthouse.spark.schema import message_schema, never_null, promised


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
