"""The rows of a task on their way to a stage: pieces, places of bad rows, dead letters, options."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from posthouse.model.errors import IllegalPropertyValue, InvalidParameter
from posthouse.model.text import utf16_length
from posthouse.spark import sink
from posthouse.spark.rows.bad_rows import VALUE_MAX, RowPosition, dead_letters, refuse
from posthouse.spark.rows.columns import Fault
from posthouse.spark.rows.rows import RowMap
from posthouse.spark.sink import AGAIN_MAX, PIECE_MAX, StageRows, _sent_again
from posthouse.spark.sink_options import Writing, sink_options

ACCESS = {"url": "http://127.0.0.1:1", "tokenFile": "t"}
PLAIN = Writing(".\\private$\\q", {}, "json", "message", "")
DEAD = PLAIN._replace(dead_letter_queue=".\\private$\\dead")


def rows(*bodies: bytes | None) -> Any:
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})


def stage(writing: Writing, *batches: Any) -> tuple[StageRows, list[Any]]:
    made = StageRows(RowMap(batches[0].schema, {}), writing, "query", 3, 1)
    return made, list(made.pieces(batches))


# -- pieces


def test_empty_batches_are_left_out() -> None:
    made, pieces = stage(PLAIN, rows(), rows(b"x"), rows())
    assert [piece.to_pydict() for piece in pieces] == [{"body": [b"x"]}]
    assert made.schema == pieces[0].schema


def test_large_batch_is_cut_and_stays_in_order() -> None:
    bodies = [bytes([number]) * (3 << 20) for number in range(9)]
    _, pieces = stage(PLAIN, rows(*bodies))
    assert all(piece.nbytes <= PIECE_MAX for piece in pieces)
    assert [body for piece in pieces for body in piece.column("body").to_pylist()] == bodies


def test_one_large_row_is_a_piece_by_itself() -> None:
    _, pieces = stage(PLAIN, rows(b"x", b"y" * (4_000_000), b"z"))
    assert sum(piece.num_rows for piece in pieces) == 3


def test_small_partition_can_be_sent_again_and_a_large_one_flows() -> None:
    small = [rows(b"x")] * 3
    assert _sent_again(iter(small)) == small
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "AGAIN_MAX", sum(piece.nbytes for piece in small))
        assert _sent_again(iter(small)) == small
    large = [rows(b"x" * (4 << 20))] * (AGAIN_MAX // (4 << 20) + 2)
    flowing = _sent_again(iter(large))
    assert not isinstance(flowing, list)
    assert list(flowing) == large


# -- bad rows


def test_row_is_counted_over_all_batches_of_its_partition() -> None:
    with pytest.raises(IllegalPropertyValue, match="row 4 of partition 1, column body") as caught:
        stage(PLAIN, rows(b"0", b"1", b"2"), rows(b"3", None))
    assert (caught.value.row, caught.value.column) == (4, "body")  # type: ignore[attr-defined]
    assert "Nothing of this batch was published" in str(caught.value)


def test_bad_rows_are_set_apart() -> None:
    made, pieces = stage(DEAD, rows(b"0", None), rows(None), rows(b"3"))
    assert made.bad == 2
    found = [row for piece in pieces for row in piece.to_pylist()]
    assert [row["body"] for row in found if row["destination"] is None] == [b"0", b"3"]
    letters = [row for row in found if row["destination"] is not None]
    assert {letter["destination"] for letter in letters} == {DEAD.dead_letter_queue}
    assert [json.loads(letter["body"])["row"] for letter in letters] == [1, 2]
    assert json.loads(letters[0]["body"]) == {
        "query": "query",
        "batch": 3,
        "partition": 1,
        "row": 1,
        "column": "body",
        "cause": "null is not a body",
        "cut": [],
        "values": {"body": None},
    }


def test_dead_letter_is_never_too_large() -> None:
    wide = {f"c{number}": [b"\xff" * (VALUE_MAX + 1)] for number in range(8)}
    place = RowPosition("q", 0, 0, 0)
    fault = Fault(0, "body", "x" * 1000)
    (one,) = dead_letters(pa.RecordBatch.from_pydict({"c": wide["c0"]}), [fault], place)
    said = json.loads(one["body"])
    assert said["cut"] == ["c"]
    assert len(said["values"]["c"]) == -(-VALUE_MAX // 3) * 4
    (all_,) = dead_letters(pa.RecordBatch.from_pydict(wide), [fault], place)
    assert json.loads(all_["body"])["values"] is None
    assert utf16_length(one["label"]) < 250


def test_odd_characters_of_a_cause_make_a_label() -> None:
    fault = Fault(0, "label", "\U0001f40e" * 300 + "\0")
    (one,) = dead_letters(rows(None), [fault], RowPosition("q", 0, 0, 0))
    assert utf16_length(one["label"]) < 250
    assert "\0" not in one["label"]


def test_refusal_may_say_something_else_of_what_was_sent() -> None:
    assert "not a thing" in str(
        refuse(RowPosition("q", 0, 0, 7), Fault(1, "x", "why"), "not a thing")
    )


# -- options


def test_options_are_understood_with_underscores_and_without() -> None:
    options = {"correlation_id": "ab" * 20, "RESPONSEQUEUE": ".\\private$\\r", "acknowledge": "a,b"}
    made = sink_options({**ACCESS, **options, "queue": "./private$/q"})
    assert made.writing.constants == {
        "correlation_id": "ab" * 20,
        "response_queue": ".\\private$\\r",
        "acknowledge": ("a", "b"),
    }
    assert made.manager.url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "http://a,http://b"}, "one queue manager"),
        ({"priority": "-1"}, "whole number from 0"),
        ({"delivery": "fast"}, "one of express"),
        ({"badRows": "drop"}, "one of fail, deadletter"),
        ({"deadLetterQueue": ".\\private$\\d"}, "go together"),
        ({"queryId": "x" * 201, "batchId": "0"}, "printable"),
        ({"queryId": "x"}, "Give both"),
        ({"label": "x", "lable": "y"}, "did you mean label"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        sink_options({**ACCESS, **options})


def test_what_spark_adds_is_passed_over() -> None:
    sink_options({**ACCESS, "checkpointLocation": "/x", "queryName": "y"})
