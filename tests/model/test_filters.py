"""The filter language: what it means, where it faults, and that no text breaks it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.model.filters import (
    COMPARISONS_MAX,
    DEPTH_MAX,
    FIELDS,
    FILTER_LENGTH_MAX,
    Kind,
    parse_filter,
)
from posthouse.model.message_json import MessageJson
from tests.support.sample_order import ORDER


@pytest.mark.parametrize(
    "text",
    [
        'priority >= 5 and label ~ "order"',
        "priority = 5",
        "PRIORITY == 5",
        "priority != 4 AND NOT priority < 5",
        "app_specific = 0x10",
        "lookup_id > -1",
        "label = 'Order \"7\"'",
        r'label = "Order \"7\""',
        'label !~ "invoice"',
        "delivery = recoverable",
        "label ~ 7",
        "class = normal and class_code = 0",
        r'queue ~ "private$\orders"',
        'sent_time >= "2026-01-31"',
        "sent_time >= 2026-01-31 and sent_time < 2026-01-31T12:00:01Z",
        "sent_time = 2026-01-31T13:00:00+01:00",
        'sent_time = "2026-01-31T13:00:00+01:00"',
        "arrived_time > '2026-01-31T12:00:00Z'",
        "acknowledge = pos-arrival",
        "acknowledge != neg-arrival",
        "acknowledge ~ receive",
        "journal !~ positive",
        "authenticated",
        "not encrypted",
        "authenticated = true and encrypted != true",
        "time_to_be_received != 5",
        "(priority = 1 or priority = 5) and abort_count > 1",
        "priority = 5 or priority = 1 and priority = 2",
    ],
)
def test_what_matches(text: str) -> None:
    assert parse_filter(text).matches(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "priority > 5",
        "label = order",
        "label ~ invoice",
        "time_to_be_received = 5",
        "time_to_be_received < 5",
        "time_to_be_received >= 0",
        "acknowledge = arrival",
        "journal = positive",
        "not authenticated",
        "(priority = 5 or priority = 1) and priority = 2",
        'sent_time < "2026-01-31"',
        "id ~ '\\8'",
    ],
)
def test_what_does_not_match(text: str) -> None:
    assert not parse_filter(text).matches(ORDER)


def test_one_filter_looks_at_each_message_anew() -> None:
    """A text is folded once for all comparisons with it, and never taken for another one."""
    where = parse_filter(
        "label ~ ORDER and label !~ old and (body_text ~ a or body_text ~ STRASSE)"
    )
    texts = [("order", "a"), ("Old order", "a"), ("order", "b"), ("order", "stra\xdfe"), ("", "a")]
    messages = [msgspec.structs.replace(ORDER, label=a, body_text=b) for a, b in texts]
    for _ in range(2):
        assert [where.matches(one) for one in messages] == [True, False, False, True, False]


def test_a_body_that_is_no_text_contains_nothing() -> None:
    binary = msgspec.structs.replace(ORDER, body_text=None)
    assert not parse_filter("body_text ~ order").matches(binary)
    assert parse_filter("body_text !~ order").matches(binary)
    assert parse_filter("body_text != order").matches(binary)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("   ", 4),
        ("priority", 9),
        ("priority >", 11),
        ("priority > high", 12),
        ("priority ~ 5", 10),
        ("priority 5", 10),
        ("label = (", 9),
        ('label = "open', 9),
        ("prioritee = 5", 1),
        ("priority = 5 label = x", 14),
        ("(priority = 5", 14),
        ("priority = 5)", 13),
        ("priority = 5 and", 17),
        ("priority = 99999999999999999999", 12),
        ("priority = 9999999999999999999", 12),
        ("priority = 5.5", 12),
        ("sent_time > yesterday", 13),
        ("sent_time > '9999-12-31'", 13),
        ("authenticated > true", 15),
        ("encrypted = 1", 13),
        ("label = x & y", 11),
        ("label = \x00", 9),
    ],
)
def test_a_fault_names_its_place(text: str, place: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_filter(text)
    assert f"at character {place}:" in caught.value.cause
    assert caught.value.remedy


def test_the_nearest_field_is_named() -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_filter("prioritee = 5")
    assert caught.value.remedy == "Did you mean priority?"


def test_bombs_are_refused() -> None:
    many = " or ".join(["priority = 1"] * (COMPARISONS_MAX + 1))
    deep = "(" * (DEPTH_MAX + 2) + "priority = 1" + ")" * (DEPTH_MAX + 2)
    negated = "not " * (DEPTH_MAX + 2) + "priority = 1"
    for text in (many, deep, negated, "(" * 4000, "x" * (FILTER_LENGTH_MAX + 1)):
        with pytest.raises(InvalidParameter):
            parse_filter(text)


def test_what_the_limits_allow_works() -> None:
    many = " or ".join(["priority = 1"] * (COMPARISONS_MAX - 1) + ["priority = 5"])
    deep = "(" * DEPTH_MAX + "priority = 5" + ")" * DEPTH_MAX
    assert parse_filter(many).matches(ORDER)
    assert parse_filter(deep).matches(ORDER)


def test_every_field_is_one_of_the_message() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(MessageJson)}
    # The code page is a property of the queue, shown with what is read by it; why a message was
    # moved is shown with one message only. A trace context lies in the headers of the body or the
    # extension, which `header` finds.
    left_out = {"body", "extension", "transaction", "decoded", "code_page", "move_reason"}
    left_out |= {"traceparent", "tracestate"}
    assert names - left_out == FIELDS.keys()


WORDS = st.sampled_from(
    [*FIELDS, "and", "or", "not", "(", ")", "=", "~", "!~", "<", "5", "-1", '"x"', "true", "'"]
)


@given(st.one_of(st.text(), st.lists(WORDS, max_size=12).map(" ".join)))
def test_any_text_gives_a_filter_or_one_error(text: str) -> None:
    with suppress(InvalidParameter):
        assert parse_filter(text).matches(ORDER) in (True, False)


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(st.sampled_from([f for f, kind in FIELDS.items() if kind is Kind.TEXT]), st.text())
def test_a_quoted_text_means_itself(field: str, value: str) -> None:
    changes: dict[str, Any] = {"class_" if field == "class" else field: value}
    try:
        found = parse_filter(f"{field} = {quoted(value)}")
    except InvalidParameter:
        assert any("\ud800" <= c <= "\udfff" for c in value)
        return
    assert found.matches(msgspec.structs.replace(ORDER, **changes))


@given(
    st.sampled_from([f for f, kind in FIELDS.items() if kind is Kind.NUMBER]),
    st.sampled_from(["<", "<=", "=", "!=", ">=", ">"]),
    st.integers(-9, 9),
    st.integers(0, 9),
)
def test_numbers_compare_as_numbers(field: str, sign: str, value: int, actual: int) -> None:
    message = msgspec.structs.replace(ORDER, **{field: actual})
    python = "==" if sign == "=" else sign
    assert parse_filter(f"{field} {sign} {value}").matches(message) == eval(
        f"{actual} {python} {value}"
    )


CONDITIONS = {
    "priority = 5": True,
    'priority = 5 and label = "x"': True,
    'label = "x" and (priority = 5 or class = "normal")': True,
    "not (priority = 3 or class_code > 0) and encrypted": True,
    'priority = 5 or label = "x"': False,
    '(priority = 5 or label = "x")': False,
    'label = "x"': False,
    'priority = 5 and label = "x" or class_code = 0': False,
}


@pytest.mark.parametrize(("text", "has"), CONDITIONS.items())
def test_conditions_on_some_fields_stand_apart(text: str, has: bool) -> None:
    """What has to hold where a filter matches: nothing that stands beside an `or`."""
    within = parse_filter(text).within({"priority", "class", "class_code"})
    assert (within is not None) == has
    if within is not None:
        assert within(msgspec.structs.replace(ORDER, priority=5, class_="normal", class_code=0))
        assert not within(msgspec.structs.replace(ORDER, priority=3, class_="x", class_code=1))
