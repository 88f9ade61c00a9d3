"""A condition means the same for `erase` as for `sql`, `replay` and Spark.

Of these 58 conditions `erase` once chose other messages for nine, and refused seven, while it
certified that none was left.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import functions as F

from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark.lakes import conditions
from posthouse.spark.lakes.conditions import matching
from posthouse.spark.lakes.erasure import erase
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.table import lake as lake_frame
from tests.conftest import Dose
from tests.spark.lake_samples import DAY, NOON, ORDERS, add_rows, ids_in, rows, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHERS: Final = "BETA\\private$\\others"
SMALL: Final = r"""
queue = 'ALPHA\\private$\\orders'
queue = 'ALPHA\private$\orders'
queue <> 'ALPHA\\private$\\orders'
queue LIKE '%orders'
queue LIKE 'ALPHA%'
label = 'a\\b'
label = 'a\b'
label = 'a'
label <> 'a'
label = 'A'
label = ''
label = 'it\\s'
label = 'a '
label not in ('a', null)
label in ('a', null)
label not in ('a', 'm2')
label is null
label is not null
label <=> null
not (label = 'a')
label = 'a' or priority = 3
label = 'a' and priority = 3
label > 'a'
label between 'a' and 'b'
label LIKE 'a%'
label LIKE '_'
label LIKE 'A%'
lookup_id / 2 = 1
priority / 2 = 1
lookup_id / 2 > 1.2
lookup_id % 2 = 0
lookup_id + 1 = 3
lookup_id in (1, 2, 3)
lookup_id between 3 and 5
lookup_id = '7'
priority = 3
priority <> 3
priority >= 3 and priority < 6
- priority = -3
round(priority / 2) = 2
substring(label, 0, 1) = 'a'
upper(label) = 'A'
lower(label) = 'ß'
length(label) = 1
coalesce(label, 'a') = 'a'
case when priority = 3 then true else false end
if(priority = 3, label = 'a', label is null)
authenticated
not authenticated
authenticated = 'false'
authenticated is null
arrived_time < timestamp '2026-11-15 12:00:04'
day = date '2026-11-15'
date(arrived_time) = date '2026-11-14'
cast(body as string) = 'm1'
string(body) = 'm1'
label rlike '^a'
label = "a"
""".strip().splitlines()


@pytest.fixture
def lake(tmp_path: Path) -> LakeFiles:
    """Twelve messages of two queues and days."""
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    labels = ["a", "a\\b", "a\b", None, "", "ß", "m2", "A", "a ", "b", "it\\s", "a"]
    batches = []
    for n, label in enumerate(labels):
        queue, at = (ORDERS, NOON) if n < 8 else (OTHERS, NOON - DAY)
        known = None if n % 5 == 4 else n % 3 == 0
        values = {"label": label, "priority": n % 8, "authenticated": known}
        batches.append(rows(queue, [n], at, body=f"m{n}".encode(), **values))
    add_rows(lake, 0, *batches)
    return lake


class _Left(Exception):
    """One that only Spark answers, left out."""


def test_a_condition_chooses_what_spark_chooses(
    spark: SparkSession, lake: LakeFiles, dose: Dose
) -> None:
    """All of them in one run of Spark; `erase` asks Spark itself where DuckDB does not answer."""
    assert len(SMALL) == 58
    frame = lake_frame(lake.place.uri, spark)
    chosen = [F.expr(condition).cast("boolean").alias(f"c{n}") for n, condition in enumerate(SMALL)]
    found = frame.select("queue", "lookup_id", *chosen).collect()
    state, started = lake.state(), []

    def sessions() -> SparkSession:
        started.append(1)
        if len(started) % dose(5, 1):
            raise _Left
        return spark

    different = []
    for n, condition in enumerate(SMALL):
        wanted: dict[str, list[int]] = {}
        for row in sorted(found):
            if row[f"c{n}"]:
                wanted.setdefault(row["queue"], []).append(row["lookup_id"])
        try:
            given = matching(lake, state, condition, sessions)
        except _Left:
            continue
        different += [] if given == wanted else [(condition, wanted, given)]
    assert different == []
    assert 0 < len(started) < 20


@pytest.mark.parametrize(
    "where",
    [
        "true) GROUP BY queue, lookup_id HAVING (true",
        "true) GROUP BY (queue), (lookup_id",
        "true) UNION ALL SELECT queue, lookup_id FROM lake.messages WHERE (true",
        "true) ORDER BY (label",
    ],
)
def test_a_condition_that_goes_on_with_something_else_is_refused(
    lake: LakeFiles, where: str
) -> None:
    with pytest.raises(InvalidParameter, match="more than a condition"):
        matching(lake, lake.state(), where)


@pytest.mark.parametrize(
    "where",
    ["label =", "", "1; DROP TABLE x", "label in (SELECT label FROM lake_messages)"],
)
def test_what_spark_does_not_take_for_a_condition_erases_nothing(
    spark: SparkSession, lake: LakeFiles, where: str
) -> None:
    with pytest.raises(InvalidParameter, match="does not fit"):
        erase(lake.place.uri, where, spark=lambda: spark)
    assert ids_in(lake) == [*range(12)]


def test_a_lake_of_any_size_is_read_in_portions(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "BYTES_MAX", 1)
    assert matching(lake, lake.state(), "label = 'a'") == {ORDERS: [0], OTHERS: [11]}


def test_what_a_condition_chose_is_erased_and_nothing_else(lake: LakeFiles) -> None:
    """Another archive comes between the choice and the end."""

    def arrives(_: int) -> None:
        lake.add(written(lake, rows(ORDERS, [20], label="a")), "another", 0)

    with pytest.raises(SharingViolation, match="1 such messages arrived"):
        erase(lake.place.uri, "label = 'a'", approve=arrives)
    assert ids_in(lake) == [*range(1, 11), 20]


def test_a_condition_that_chooses_by_chance_is_told(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, it would choose some more each time, until none is left."""
    answers = iter([{ORDERS: [1]}, {ORDERS: [2]}])
    monkeypatch.setattr("posthouse.spark.lakes.erasure.matching", lambda *_: next(answers))
    with pytest.raises(InvalidParameter, match="does not choose the same ones each time"):
        erase(lake.place.uri, "rand() < 0.5")
    assert ids_in(lake) == [0, *range(2, 12)]
