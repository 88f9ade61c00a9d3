"""`replay`: from a lake back to queues, each message once, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.spark.lakes.columns import LAKE_COLUMNS
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.progress import Progress
from posthouse.spark.replay_map import FunctionFailed, MapFunction, load_function
from posthouse.spark.replaying import Replayed, replay
from posthouse.spark.selection import check_where, checked_changes, destinations_of
from tests.process.spark_office import SparkOffice, path_of
from tests.spark.lake_samples import add_rows

ORDERS = "ALPHA\\private$\\orders"
BILLS = "ALPHA\\private$\\bills;journal"
COLUMNS = (
    *("queue_manager", "queue", "lookup_id", "id", "label", "body", "body_type", "body_size"),
    *("priority", "delivery", "correlation_id", "arrived_time", "encrypted", "app_specific"),
    "journal",
)
GUID = "6bd4b6a8-1111-2222-3333-444444444444"
NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)
Replaying = Callable[..., Replayed]


def row(number: int) -> tuple[object, ...]:
    """Odd ones are orders, even ones bills; the tenth cannot be opened; one a minute."""
    body = b"m%d" % number
    return (
        *("ALPHA", ORDERS if number % 2 else BILLS, number, f"{GUID}\\{number}", f"label {number}"),
        *(body, 8, len(body), number % 8, "express", f"{number:040x}"),
        *(NOON + timedelta(minutes=number), number == 10, number),
        ["positive"],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = LakeFiles(tmp_path_factory.mktemp("lakes") / "lake")
    made.create()
    for batch, numbers in enumerate((range(1, 7), range(7, 11))):
        found = [dict(zip(COLUMNS, row(number), strict=True)) for number in numbers]
        queues = [[one for one in found if one["queue"] == queue] for queue in (ORDERS, BILLS)]
        schema = pa.schema([LAKE_COLUMNS.field(name) for name in COLUMNS])
        add_rows(made, batch, *(pa.RecordBatch.from_pylist(rows, schema) for rows in queues))
    return Path(str(made.place))


@pytest.fixture
def replayed(office: SparkOffice, spark: SparkSession, folder: Path) -> Replaying:
    """`replayed(to, ...)`: messages of the module's lake, to queues of the office."""

    def run(to: str | None = None, **more: object) -> Replayed:
        access = {"url": office.url, "token_file": office.token_file, "spark": spark}
        return replay(folder, to, **{**access, **more})  # type: ignore[arg-type]

    return run


def expected(*numbers: int) -> list[bytes]:
    return [b"m%d" % number for number in numbers]


def test_messages_are_sent_as_they_were_under_new_identifiers(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name = queue()
    done = replayed(path_of(name), mapping={BILLS: path_of(name)})
    assert (done.messages, done.sent, done.encrypted, done.batches) == (9, 9, 1, 1)
    messages = list(office.qm.queue(path_of(name)).browse())
    # As they are received: by priority, then in the order in which they had come.
    assert [message.body for message in messages] == expected(7, 6, 5, 4, 3, 2, 1, 9, 8)
    found = {message.body: message for message in messages}
    third = found[b"m3"]
    assert (third.label, third.priority, third.app_specific) == ("label 3", 3, 3)
    assert not any(message.to_json().journal for message in messages), "its sender has had it"
    assert (third.body_type, third.correlation_id) == (8, f"{3:040x}")
    assert str(third.id) != f"{GUID}\\3"


def test_identifiers_can_stay_the_same(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name = queue()
    replayed(path_of(name), same_ids=True, where="lookup_id = 3")
    (message,) = office.qm.queue(path_of(name)).browse()
    assert str(message.id).lower() == f"{GUID}\\3"


def test_a_dry_run_counts_by_destination_and_sends_nothing(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name = queue()
    done = replayed("origin", mapping={"./private$/orders": path_of(name)}, dry_run=True)
    assert [(one.destination, one.messages) for one in done.destinations] == [
        (path_of(name), 5),
        ("ALPHA\\private$\\bills", 4),
    ]
    assert (done.messages, done.sent, done.encrypted) == (9, 0, 1)
    assert done.destinations[0].first == NOON + timedelta(minutes=1)
    assert done.destinations[0].bytes == 10
    assert office.count(name) == 0


def test_time_and_condition_choose(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name = queue()
    since, until = NOON + timedelta(minutes=2), NOON + timedelta(minutes=8)
    chosen = replayed(
        path_of(name), since=since, until=until, where="label LIKE '%7' OR priority < 4"
    )
    assert chosen.sent == 3
    assert sorted(office.bodies(name)) == expected(2, 3, 7)


def test_a_replay_that_was_cut_off_goes_on_and_sends_nothing_twice(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name, stop = queue(), threading.Event()

    def watch(progress: Progress) -> None:
        assert progress.total == 9
        if progress.batches == 1:
            raise EOFError("gone")

    with pytest.raises(EOFError):  # sent, and nobody has written that down
        replayed(path_of(name), batch=4, progress=watch)
    begun = len(office.bodies(name))
    assert 0 < begun < 9
    with pytest.raises(InvalidParameter, match=r"is unfinished: at least 0 of 9 .*--begin-again"):
        replayed(path_of(name), batch=4, changes={"label": "z"})
    assert len(office.bodies(name)) == begun
    assert replayed(path_of(name), where="lookup_id = 0", begin_again=True).sent == 0
    done = replayed(path_of(name), batch=4, progress=lambda one: stop.set(), stop=stop)
    assert (done.resumed, done.stopped) == (True, True)
    assert len(office.bodies(name)) == begun
    done = replayed(path_of(name), batch=4)
    assert (done.resumed, done.stopped) == (True, False)
    assert sorted(office.bodies(name)) == expected(*range(1, 10))
    again = replayed(path_of(name), batch=4)
    assert (again.sent, again.resumed) == (9, False)
    assert office.count(name) == 18


def test_a_job_that_comes_again_behind_its_end_sends_nothing(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    """Its server was lost when it had done all of it, and before it could say so."""
    name = queue()
    sent = [replayed(path_of(name), job=job).sent for job in ("one", "one", "two", "")]
    assert sent == [9, 0, 9, 9]
    assert office.count(name) == 27


def test_a_rate_makes_small_batches(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice
) -> None:
    name = queue(transactional=True)
    done = replayed(path_of(name), where="lookup_id < 5", rate=2.0)
    assert (done.sent, done.batches) == (4, 2)
    assert done.seconds > 0
    assert sorted(office.bodies(name)) == expected(1, 2, 3, 4)


@pytest.mark.parametrize(
    "where",
    [
        "lookup_id = ",
        "nothing = 1",
        "lookup_id IN (SELECT 1 FROM parquet.`/etc`)",
        "java_method('java.lang.System', 'exit', 1) IS NULL",
        "1 = 1) UNION SELECT (1",
        "lookup_id = 1; DROP TABLE x",
    ],
)
def test_what_is_no_condition_over_a_message_is_refused(replayed: Replaying, where: str) -> None:
    with pytest.raises(InvalidParameter):
        replayed("origin", where=where, dry_run=True)


def test_a_condition_holds_no_variables_of_the_environment(
    replayed: Replaying, spark: SparkSession
) -> None:
    """Whatever the session of the caller does with them: `${...}` stays text."""
    careless = spark.newSession()
    careless.conf.set("spark.sql.variable.substitute", "true")
    where = "label LIKE '%7' AND length('${spark.app.name}') = 17"
    done = replayed("origin", where=where, spark=careless, dry_run=True)
    assert done.messages == 1


def test_a_condition_may_hold_a_comment(spark: SparkSession) -> None:
    check_where(spark, "priority > 3 -- urgent ones")


def test_destinations_by_queue() -> None:
    there = [ORDERS, BILLS, "BRAVO\\private$\\orders"]
    assert destinations_of(there, None, {"alpha/private$/ORDERS": "x\\y"}) == {ORDERS: "x\\y"}
    assert destinations_of([ORDERS], None, {"orders": "again"}) == {ORDERS: ".\\private$\\again"}
    far = "DIRECT=HTTP://host/msmq/private$/again"
    assert destinations_of([ORDERS], None, {"orders": far}) == {ORDERS: far}
    assert destinations_of(there, "origin", {".\\private$\\orders": "x\\y"}) == {
        ORDERS: "x\\y",
        BILLS: "ALPHA\\private$\\bills",
        "BRAVO\\private$\\orders": "x\\y",
    }


def test_wrong_destinations_are_refused(replayed: Replaying) -> None:
    with pytest.raises(InvalidParameter, match="needs a destination"):
        replayed()
    with pytest.raises(InvalidParameter, match="Did you mean"):
        replayed(mapping={"ALPHA\\private$\\order": "x"})
    with pytest.raises(InvalidParameter, match="above 0"):
        replayed("origin", rate=0.0)


def test_a_folder_without_a_lake_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StatusNotFound, match="not a lake"):
        replay(tmp_path, "origin", spark=spark)


def test_values_are_set_in_every_message(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str]
) -> None:
    name = queue()
    changes = {"label": "it's again", "priority": "7", "app_specific": "4000000000"}
    replayed(path_of(name), where="lookup_id <= 2", changes=changes)
    found = list(office.qm.queue(path_of(name)).browse())
    assert [(one.label, one.priority, one.app_specific) for one in found] == [
        ("it's again", 7, 4_000_000_000)
    ] * 2
    assert [one.body for one in found] == [b"m1", b"m2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lable": "x"}, "Did you mean label"),
        ({"id": "x"}, "cannot set"),
        ({"priority": "8"}, "0 to 7"),
        ({"priority": "-1"}, "0 to 7"),
        ({"app_specific": "x"}, "0 to"),
        ({"label": "x" * 250}, "249"),
        ({"correlation_id": "x"}, "40 hexadecimal"),
    ],
    ids=str,
)
def test_a_value_that_no_message_has_is_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        checked_changes(changes)


# -- a function of the user's


CHANGE = """
def change(message):
    if message.lookup_id == 4:
        return None
    message.body = message.body.upper() + b"!"
    message.label = f"again {message.label}"
    return message
"""


@pytest.fixture
def function(tmp_path: Path) -> Callable[[str], MapFunction]:
    """`function(code)`: the function `change` of a file with this content."""

    def load(code: str = CHANGE) -> MapFunction:
        (tmp_path / "changes.py").write_text(code, encoding="utf-8")
        return load_function(f"{tmp_path / 'changes.py'}:change")

    return load


Loading = Callable[..., MapFunction]


def test_a_function_changes_messages_and_leaves_some_out(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str], function: Loading
) -> None:
    name = queue()
    done = replayed(path_of(name), function=function(), batch=4, changes={"priority": "3"})
    assert (done.messages, done.sent, done.left_out, done.encrypted) == (8, 8, 1, 1)
    found = list(office.qm.queue(path_of(name)).browse())
    assert [one.body for one in found] == [b"M%d!" % n for n in (1, 2, 3, 5, 6, 7, 8, 9)]
    assert {one.label for one in found} >= {"again label 1", "again label 9"}
    assert {one.priority for one in found} == {3}
    assert not any(one.to_json().journal for one in found)
    again = replayed(path_of(name), function=function(), batch=4)
    assert (again.sent, again.resumed, office.count(name)) == (8, False, 16)


def test_identifiers_can_stay_the_same_with_a_function(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str], function: Loading
) -> None:
    name = queue()
    replayed(path_of(name), function=function(), same_ids=True, where="lookup_id = 3")
    (message,) = office.qm.queue(path_of(name)).browse()
    assert (str(message.id).lower(), message.body) == (f"{GUID}\\3", b"M3!")


def test_nothing_is_sent_where_the_function_fails_for_one_message(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str], function: Loading
) -> None:
    name = queue()
    code = "def change(message):\n    1 / (9 - message.lookup_id)\n    return message\n"
    words = r"changes.py:change, line 2 failed for the message .*\\9 \(lookup id 9 of .*orders\): "
    with pytest.raises(FunctionFailed, match=f"{words}ZeroDivisionError") as caught:
        replayed(path_of(name), function=function(code), batch=2)
    assert "\n" not in str(caught.value)
    assert "Nothing was sent" in caught.value.remedy
    assert office.count(name) == 0
    assert replayed(path_of(name), function=function(), batch=2).resumed is False
    assert office.count(name) == 8


def test_a_changed_function_does_not_go_on_unasked(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str], function: Loading
) -> None:
    """The first batch was published, and the command was killed before it noted that."""
    name = queue()

    def watch(progress: Progress) -> None:
        if progress.batches == 1:
            raise EOFError("gone")

    with pytest.raises(EOFError):
        replayed(path_of(name), function=function(), batch=4, progress=watch)
    begun = office.bodies(name)
    assert 0 < len(begun) < 8
    changed = CHANGE.replace(".upper()", ".lower()").replace("== 4", "in (1, 9)")
    with pytest.raises(InvalidParameter, match=r"has changed since .* of 9"):
        replayed(path_of(name), function=function(changed), batch=4)
    assert office.bodies(name) == begun
    broken = function(changed.replace("message.body.lower()", "message.bodi"))
    with pytest.raises(FunctionFailed, match="AttributeError"):
        replayed(path_of(name), function=broken, batch=4, accept_changed=True)
    assert office.bodies(name) == begun
    replayed(path_of(name), function=function(changed), batch=4, accept_changed=True)
    found = sorted(office.bodies(name))
    assert [body for body in found if body in begun] == sorted(begun), "sent as they were"
    rest = [n for n in range(1, 10) if b"M%d!" % n not in begun and n not in (1, 9)]
    left = {4} if any(n > 4 for n in range(1, 10) if b"M%d!" % n in begun) else set()
    assert [body for body in found if body not in begun] == [
        b"m%d!" % n for n in rest if n not in left
    ]


def test_a_dry_run_shows_messages_before_and_after(
    replayed: Replaying, office: SparkOffice, queue: Callable[..., str], function: Loading
) -> None:
    name = queue()
    done = replayed(path_of(name), function=function(), dry_run=True)
    assert (done.messages, done.left_out, done.sent, office.count(name)) == (8, 1, 0, 0)
    first, *_ = done.examples
    assert first.message.endswith(f"\\1 (lookup id 1 of {ORDERS})")
    assert (first.before["label"], first.before["priority"]) == ("label 1", 1)
    assert first.after is not None
    assert first.after["label"] == "again label 1"
    assert [one.after is None for one in done.examples] == [False, False, False, True, False]


def test_the_progress_of_another_replay_is_not_gone_on_with(
    replayed: Replaying, queue: Callable[..., str], office: SparkOffice, tmp_path: Path
) -> None:
    """It sent the rest of the old plan, by the new condition, to the old queue."""
    first, second, stop = queue(), queue(), threading.Event()
    given = {"batch": 4, "checkpoint": tmp_path / "progress"}
    done = replayed(path_of(first), progress=lambda one: stop.set(), stop=stop, **given)
    assert done.stopped
    begun = len(office.bodies(first))
    with pytest.raises(InvalidParameter, match=rf"cut off: {begun} of 9 messages.*--checkpoint"):
        replayed(path_of(second), where="label LIKE '%7'", **given)
    assert (len(office.bodies(first)), office.count(second)) == (begun, 0)
    assert replayed(path_of(first), **given).resumed
    assert sorted(office.bodies(first)) == expected(*range(1, 10))
    assert replayed(path_of(second), **given).sent == 9, "of a replay that is done nothing is left"
