"""What has a limit."""

from __future__ import annotations

import pytest

from posthouse.model.bounded_tables import Bounded, require_room
from posthouse.model.errors import InsufficientResources


def test_the_entry_that_came_first_makes_room() -> None:
    bounded: Bounded[int, str] = Bounded(2)
    for key in (1, 2, 1, 3):
        bounded[key] = str(key)
    assert bounded == {2: "2", 3: "3"}


def test_an_entry_that_is_there_is_replaced_in_its_place() -> None:
    bounded: Bounded[int, str] = Bounded(2)
    for key in (1, 2, 1):
        bounded[key] = "again"
    assert list(bounded) == [1, 2]


def test_there_is_no_room_for_more_than_there_can_be() -> None:
    require_room(1, 2, "tokens")
    with pytest.raises(InsufficientResources, match=r"there are 2 tokens.*Revoke some"):
        require_room(2, 2, "tokens", "Revoke some.")
