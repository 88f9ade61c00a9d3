"""Queue properties: defaults and limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import properties as names
from posthouse.model.errors import (
    IllegalPropertyValue,
    IllegalQueuePathname,
    LabelTooLong,
    PropertiesConflict,
    QueueError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.properties import (
    UNLIMITED,
    QueuePrivacyLevel,
    QueueProperties,
    parse_multicast_address,
)
from tests.model.strategies import attempt, guids


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.33/1", "MS-MQDMPR 3.1.7.1.33/2")
def test_defaults_are_those_of_set_queue_defaults() -> None:
    assert QueueProperties() == QueueProperties(
        label="",
        type_guid=NULL_GUID,
        pathname="",
        journaling=False,
        quota_kib=0xFFFFFFFF,
        journal_quota_kib=0xFFFFFFFF,
        authentication=False,
        privacy_level=QueuePrivacyLevel.OPTIONAL,
        transactional=False,
        multicast_address=None,
        base_priority=0,
    )
    QueueProperties().validate()


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"label": "x" * 125}, LabelTooLong),
        ({"label": "\U0001f4ee" * 63}, LabelTooLong),
        ({"label": "a\0"}, IllegalPropertyValue),
        ({"label": "\ud800"}, IllegalPropertyValue),
        ({"type_guid": b"x"}, IllegalPropertyValue),
        ({"pathname": "orders"}, IllegalQueuePathname),
        ({"quota_kib": -1}, IllegalPropertyValue),
        ({"quota_kib": 0x1_0000_0000}, IllegalPropertyValue),
        ({"journal_quota_kib": 0x1_0000_0000}, IllegalPropertyValue),
        ({"privacy_level": 3}, IllegalPropertyValue),
        ({"base_priority": 32768}, IllegalPropertyValue),
        ({"base_priority": -32769}, IllegalPropertyValue),
        ({"multicast_address": ""}, IllegalPropertyValue),
        ({"multicast_address": "234.1.1.1:1", "transactional": True}, PropertiesConflict),
    ],
)
def test_values_outside_their_limits_are_refused(
    values: dict[str, Any], refusal: type[QueueError]
) -> None:
    with pytest.raises(refusal):
        QueueProperties(**values).validate()


@given(
    st.builds(
        QueueProperties,
        label=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=62),
        type_guid=guids,
        journaling=st.booleans(),
        quota_kib=st.integers(0, UNLIMITED),
        journal_quota_kib=st.integers(0, UNLIMITED),
        authentication=st.booleans(),
        privacy_level=st.sampled_from([0, 1, 2]),
        base_priority=st.integers(-32768, 32767),
        multicast_address=st.none() | st.just("239.255.255.255:65535"),
    )
)
def test_values_within_their_limits_are_accepted(values: QueueProperties) -> None:
    values.validate()


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/9")
@pytest.mark.parametrize("text", ["1.2.3.4:5", "234.1.1.1", "host:1", "::1:1", "234.1.1.1:1,DL=x"])
def test_a_multicast_address_is_a_group_and_a_port(text: str) -> None:
    QueueProperties(multicast_address="234.1.1.1:8001").validate()
    with pytest.raises(IllegalPropertyValue, match="multicast"):
        QueueProperties(multicast_address=text).validate()


@given(st.text())
def test_any_text_is_a_multicast_address_or_refused(text: str) -> None:
    found = attempt(parse_multicast_address, text, IllegalPropertyValue)
    assert isinstance(found, QueueError) or found.address in text


def test_a_multicast_address_is_kept_in_one_spelling() -> None:
    properties = QueueProperties(multicast_address="234.1.1.1:08001")
    properties.validate()
    assert properties.multicast_address == "234.1.1.1:8001"


def test_a_list_of_multicast_addresses_is_refused() -> None:
    with pytest.raises(IllegalPropertyValue, match="more than one"):
        parse_multicast_address("234.1.1.1:1,MULTICAST=234.1.1.1:2")


def test_everything_about_properties_can_be_imported_from_one_place() -> None:
    assert len(names.__all__) == len(set(names.__all__))
    assert all(hasattr(names, name) for name in names.__all__)
