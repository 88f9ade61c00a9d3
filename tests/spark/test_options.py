"""Options as Spark hands them over: texts under keys in lower case."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import NAMES
from posthouse.spark import options as module
from posthouse.spark.options import SOURCE, Option, source_options, taken

ORDERS = r".\private$\orders"
TEXT = Option("groupName", module.text, "none", "a text")


def read(**more: str) -> module.SourceOptions:
    """The options of a read of one queue."""
    return source_options({"queue": ORDERS, **more})


def refusal(**more: str) -> str:
    with pytest.raises(InvalidParameter) as caught:
        read(**more)
    return str(caught.value)


def test_a_read_needs_no_more_than_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTHOUSE_TOKEN_FILE", "/secret/token")
    options = read()
    assert options.managers == (module.Manager(module.DEFAULT_URL, "/secret/token", None, 30.0),)
    assert options.queues == (ORDERS,)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert not options.consume
    assert options.fail_on_data_loss
    assert options.columns == NAMES


@pytest.mark.parametrize("key", ["groupname", "GROUPNAME", "group_name", "groupName"])
def test_case_and_underscores_do_not_matter(key: str) -> None:
    assert taken({key: " a "}, [TEXT]) == {"groupName": "a"}


def test_what_is_not_given_has_its_default() -> None:
    assert taken({}, [TEXT]) == {"groupName": "none"}


@pytest.mark.parametrize("key", ["checkpointlocation", "queryname"])
def test_what_spark_adds_is_passed_over(key: str) -> None:
    assert taken({key: "x"}, [TEXT]) == {"groupName": "none"}


def test_a_table_of_the_catalog_is_refused() -> None:
    """Spark hands its options to nobody who reads it."""
    properties = {"provider": "posthouse", "owner": "me", "groupname": "a"}
    with pytest.raises(InvalidParameter, match="CREATE TEMPORARY VIEW"):
        taken({**properties, "option.groupname": "a"}, [TEXT])


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("startingoffset", "startingOffsets"),
        ("maxmessagespertriger", "maxMessagesPerTrigger"),
        ("token", "tokenFile"),
        ("queues", "queue"),
        ("consumer", "consume"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(key: str, near: str) -> None:
    assert f"unknown option {key}: did you mean {near}?" in refusal(**{key: "1"})


def test_an_option_unlike_any_is_refused_with_all_names() -> None:
    message = refusal(zzzz="1")
    assert all(option.name in message for option in SOURCE)


def test_all_that_is_wrong_is_said_at_once() -> None:
    message = refusal(includebody="maybe", minpartitions="0", nonsense="1")
    assert "includeBody is 'maybe': true or false" in message
    assert "minPartitions is '0': a whole number from 1" in message
    assert "unknown option nonsense" in message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("queue", " , "),
        ("queue", "[1]"),
        ("queue", '["a"'),
        ("startingoffsets", "first"),
        ("startingoffsets", "[1]"),
        ("startingoffsets", '{"a": "b"}'),
        ("startingoffsets", '{"a": true}'),
        ("startingoffsets", '{"a": -3}'),
        ("startingoffsets", '{"a": 9223372036854775808}'),
        ("startingtimestamp", "yesterday"),
        ("endingoffsets", "earliest"),
        ("maxbytespertrigger", "much"),
        ("maxbytespertrigger", "0"),
        ("maxmessagespertrigger", "-1"),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("retryfor", "-1"),
        ("retryfor", "nan"),
        ("retryfor", "for ever"),
        ("consume", "always"),
        ("consume", "onCommit"),
        ("transport", "carrier pigeon"),
        ("columns", "lookupid"),
        ("group", " "),
        ("queuepattern", "*"),
        ("tokenfile", "a,b"),
    ],
)
def test_what_an_option_cannot_be_is_refused(key: str, text: str) -> None:
    refusal(**{key: text})


def test_a_queue_manager_that_is_away_is_asked_for_some_minutes() -> None:
    assert read().managers[0].retry_s == 300.0
    assert [read(retryfor=text).managers[0].retry_s for text in ("0", "7.5")] == [0.0, 7.5]


def test_a_limit_has_one_name_at_a_time() -> None:
    assert read(maxoffsetspertrigger="7").max_messages == 7
    assert read(maxmessagespertrigger="8").max_messages == 8
    assert "another name" in refusal(maxoffsetspertrigger="7", maxmessagespertrigger="7")


def test_a_read_begins_at_one_place() -> None:
    assert "needs one starting point" in refusal(startingoffsets="latest", startingtimestamp="0")


def test_a_read_without_queues_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="needs its queues named once"):
        source_options({})


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        (r".\private$\a, .\private$\b", (r".\private$\a", r".\private$\b")),
        (r"ALPHA/private$/a,,", (r"ALPHA\private$\a",)),
        (r'[".\\private$\\a,b", "ALPHA\\c"]', (r".\private$\a,b", r"ALPHA\c")),
        (r"a, a", (r".\private$\a",)),
    ],
)
def test_queues_are_a_list(text: str, queues: tuple[str, ...]) -> None:
    assert source_options({"queue": text}).queues == queues


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("LATEST", "latest"),
        (' {"ALPHA\\\\a": 17} ', {"ALPHA\\a": 17}),
        ('{"a": "earliest", "b": "latest", "c": -1}', {"a": -2, "b": -1, "c": -1}),
        ('{"v": 1, "group": "", "queues": {"a": 3}, "urls": {}}', {"a": 3}),
    ],
)
def test_where_to_begin_is_a_word_or_json(text: str, position: Any) -> None:
    assert read(startingoffsets=text).starting == position


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("1735689600000", 1735689600.0),
        ("2025-01-01T00:00:00Z", 1735689600.0),
        ("2025-01-01", 1735689600.0),
        ("2025-01-01T02:00:00.5+02:00", 1735689600.5),
    ],
)
def test_a_moment_is_iso_or_milliseconds(text: str, time_s: float) -> None:
    assert read(startingtimestamp=text).starting_time_s == time_s


@pytest.mark.parametrize(
    ("text", "size"), [("17", 17), ("8k", 8192), ("1 MiB", 1 << 20), ("2GB", 2 << 30)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert read(maxbytespertrigger=text).max_bytes == size


def test_each_url_has_its_token_file_or_all_have_one() -> None:
    both = "http://a:1/, http://b:2"
    one = read(url=both, tokenfile="/t").managers
    assert [(manager.url, manager.token_file) for manager in one] == [
        ("http://a:1", "/t"),
        ("http://b:2", "/t"),
    ]
    two = read(url=both, tokenfile="/t, /u").managers
    assert [manager.token_file for manager in two] == ["/t", "/u"]
    assert "3 token files" in refusal(url=both, tokenfile="/t,/u,/v")


def test_columns_can_be_left_out_and_added() -> None:
    without = read(includebody="false", includeextension="FALSE", includebodytext="true").columns
    assert set(NAMES) - set(without) == {"body", "extension"}
    assert without[-1] == "body_text"
    assert read(columns="label, lookup_id").columns == ("label", "lookup_id")
    assert "did you mean lookup_id" in refusal(columns="lookup")


@given(st.dictionaries(st.sampled_from([o.name.lower() for o in SOURCE]), st.text(max_size=40)))
def test_any_text_is_a_value_or_one_error(options: dict[str, str]) -> None:
    with suppress(InvalidParameter):
        source_options(options)


def test_every_option_is_documented() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "spark-options.md").read_text(
        encoding="utf-8"
    )
    assert [option.name for option in SOURCE if f"`{option.name}`" not in page] == []
