"""Filters that look into messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from posthouse.formats.search import content_of
from posthouse.model.errors import InvalidParameter
from posthouse.model.filters import parse_filter
from tests.support.format_vectors import read
from tests.support.sample_order import ORDER

ERROR = msgspec.structs.replace(
    ORDER, body=read("nsb-error.body"), body_text=None, extension=read("nsb-error.extension")
)
OBJECT = msgspec.structs.replace(ORDER, body=read("nrbf-class.body"), body_text=None, body_type=768)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('header["NServiceBus.EnclosedMessageTypes"] ~ "orderplaced"', True),
        ("header['NServiceBus.FailedQ'] = 'Shop.Sales@SHOP01'", True),
        ('header["NServiceBus.FailedQ"] = "other"', False),
        ('header["missing"] = "1"', False),
        ('header["missing"] != "1"', True),
        ('not header["missing"] ~ "x" and format = nservicebus', True),
        ('header ~ "hostid=7f787"', True),
        ('message_type = "Acme.Shop.Events.OrderPlaced"', True),
        ('exception_type ~ "InvalidOperation" and exception_message ~ "closed"', True),
        ('failed_queue = "Shop.Sales@SHOP01" and intent = Send', True),
        ('text ~ "ångström"', True),
        ('text ~ "missing"', False),
    ],
)
def test_headers_types_and_text(text: str, expected: bool) -> None:
    where = parse_filter(text, content_of)
    assert where.decodes
    assert where.matches(ERROR) is expected


def test_objects_are_searched_by_their_values() -> None:
    assert parse_filter('text ~ "main st 1" and format = nrbf', content_of).matches(OBJECT)


def test_a_body_that_is_not_at_hand_matches_nothing() -> None:
    without = msgspec.structs.replace(ORDER, body=None)
    assert not parse_filter('format = "xml"', content_of).matches(without)


def test_other_filters_decode_nothing() -> None:
    def never(_: Any) -> dict[str, Any]:
        raise AssertionError

    where = parse_filter("priority = 5", never)
    assert where.matches(ORDER)
    assert not where.decodes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("header[1] = 2", "name of a header"),
        ('header["a" = 2', "name of a header"),
        ("header[", "name of a header"),
        ('header["a"]', "operator"),
        ("headr = 1", "Did you mean header?"),
        ("label[1] = 2", "operator"),
    ],
)
def test_what_is_not_understood(text: str, reason: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse_filter(text, content_of)
    assert reason in str(refused.value)


def test_without_a_decoder_the_body_is_not_looked_into() -> None:
    with pytest.raises(InvalidParameter):
        parse_filter("format = xml")
