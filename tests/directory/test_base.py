"""Filters, sort orders and partial objects."""

import itertools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.base import (
    DirectoryOperationResult,
    Filter,
    Found,
    Operator,
    SortOrder,
    check_filters,
    equals,
    matches,
    overlaid,
    projected,
    sorted_objects,
)
from posthouse.directory.objects import QueueManager, RoutingLink
from posthouse.model.errors import IllegalPropertyId, IllegalPropertyValue
from posthouse.model.properties import OperatingSystemType

from .world import SUCCESS, guid, link, links, machine, queue

PYTHON = {
    Operator.EQUALS: operator.eq,
    Operator.NOT_EQUALS: operator.ne,
    Operator.LESS_THAN: operator.lt,
    Operator.GREATER_THAN: operator.gt,
    Operator.LESS_THAN_OR_EQUAL: operator.le,
    Operator.GREATER_THAN_OR_EQUAL: operator.ge,
}


def test_a_directory_operation_ends_in_one_of_seven_ways() -> None:
    assert {result.name for result in DirectoryOperationResult} == {
        "SUCCESS",
        "GENERIC_ERROR",
        "DIRECTORY_NOT_CONNECTED",
        "OBJECT_NOT_FOUND",
        "ATTRIBUTE_NOT_FOUND",
        "END_OF_DATA",
        "OBJECT_ALREADY_EXISTS",
    }


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/2")
@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(Operator))
def test_the_six_operators_compare_an_attribute_with_a_value(
    cost: int, value: int, comparison: Operator
) -> None:
    fits = matches(link(1, 2, 3, cost=cost), [Filter("actual_cost", comparison, value)])
    assert fits == PYTHON[comparison](cost, value)


def test_text_is_compared_without_case_and_enumerations_by_value() -> None:
    alpha = machine(1, "Alpha", operating_system_type=OperatingSystemType.FOREIGN)
    assert matches(alpha, equals("computer_name", "ALPHA"))
    assert matches(alpha, equals("operating_system_type", OperatingSystemType.FOREIGN))
    assert matches(alpha, equals("routing_server", False))
    assert matches(alpha, [Filter("computer_name", Operator.LESS_THAN, "BETA")])


def test_a_list_equals_each_value_it_holds() -> None:
    alpha = machine(1, "A", site_identifier_list=(guid(2), guid(3)))
    assert matches(alpha, equals("site_identifier_list", guid(3)))
    assert matches(alpha, equals("site_identifier_list", [guid(2), guid(3)]))
    assert not matches(alpha, equals("site_identifier_list", guid(4)))
    assert matches(alpha, [Filter("site_identifier_list", Operator.NOT_EQUALS, guid(4))])
    with pytest.raises(IllegalPropertyValue):
        matches(alpha, [Filter("site_identifier_list", Operator.LESS_THAN, guid(4))])


def test_values_of_another_type_are_refused() -> None:
    for value in ("1", None, b"1", 1.5):
        with pytest.raises(IllegalPropertyValue):
            matches(link(1, 2, 3), equals("actual_cost", value))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.20/3")
def test_a_filter_on_something_the_directory_does_not_hold_is_refused() -> None:
    for attribute in ("scope", "queue_type", "ComputerName", "__class__", ""):
        with pytest.raises(IllegalPropertyId):
            check_filters(type(queue(1, r"A\q")), equals(attribute, 1))
    check_filters(QueueManager, equals("computer_name", "A"))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.21/2")
def test_higher_priorities_sort_first_and_zero_not_at_all() -> None:
    values = [link(1, 9, 2, cost=5), link(2, 3, 4, cost=1), link(3, 8, 2, cost=1)]
    by_cost = SortOrder("actual_cost", 5)
    by_site = SortOrder("site1_identifier", 9, ascending=False)
    unused = SortOrder("identifier", 0, ascending=False)
    assert ids(sorted_objects(values, [by_cost])) == [2, 3, 1]
    assert ids(sorted_objects(values, [by_cost, by_site])) == [1, 3, 2]
    assert ids(sorted_objects(values, [unused])) == [1, 2, 3]
    site_second = SortOrder("site1_identifier", 1, ascending=False)
    assert ids(sorted_objects(values, [site_second, by_cost])) == [3, 2, 1]


def ids(values: list[RoutingLink]) -> list[int]:
    return [int.from_bytes(value.identifier, "big") for value in values]


@given(st.lists(links, max_size=12), st.booleans(), st.booleans())
def test_sorting_agrees_with_sorting_by_a_pair(
    values: list[RoutingLink], up: bool, first_up: bool
) -> None:
    orders = [SortOrder("actual_cost", 1, up), SortOrder("description", 2, first_up)]
    result = sorted_objects(values, orders)
    for before, after in itertools.pairwise(result):
        first = (before.description.casefold(), after.description.casefold())
        if first[0] == first[1]:
            low, high = before.actual_cost, after.actual_cost
            assert low <= high if up else low >= high
        else:
            assert (first[0] < first[1]) == first_up


def test_a_partial_object_has_its_name_and_what_was_asked_for() -> None:
    full = machine(1, "A", routing_server=True, queue_manager_quota=5)
    part = projected(full, ["routing_server"])
    assert (part.identifier, part.computer_name, part.routing_server) == (guid(1), "A", True)
    assert part.queue_manager_quota == QueueManager(computer_name="").queue_manager_quota


def test_only_what_was_read_is_taken_over_and_never_the_identifier() -> None:
    current = machine(1, "A", routing_server=True)
    read = machine(2, "B", queue_manager_quota=5)
    found = Found(SUCCESS, read, frozenset({"identifier", "computer_name"}))
    merged = found.merged(current)
    assert (merged.identifier, merged.computer_name) == (guid(1), "B")
    assert merged.routing_server
    assert merged.queue_manager_quota == current.queue_manager_quota
    assert overlaid(current, read, ()) == current
