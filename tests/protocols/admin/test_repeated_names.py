"""A JSON body in which a name comes twice is refused, however long the values beside it are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.handlers.refusals import BadRequest
from posthouse.protocols.handlers.repeated_names import (
    LONG,
    refuse_repeated_names,
    without_long_values,
)

PIECES = st.sampled_from(["z", '"', "\\", "\\\\\\", "é", ":", "{", "}", ",", " ", "\n", '"a":'])
TEXTS = st.builds(
    lambda piece, times, end: piece * times + end,
    PIECES,
    st.sampled_from([0, 1, 40, LONG // 2, LONG, LONG * 2]),
    st.lists(PIECES, max_size=4).map("".join),
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def names_in(text: bytes) -> Any:
    """The names of all objects in a text, with repeats, in their places."""
    marked = json.loads(text, object_pairs_hook=lambda pairs: ["names", *pairs])
    return shape(marked)


def shape(value: Any) -> Any:
    if isinstance(value, list) and value[:1] == ["names"]:
        return [(name, shape(inner)) for name, inner in value[1:]]
    return [shape(inner) for inner in value] if isinstance(value, list) else None


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_names_and_objects_stay_as_they_are(value: Any, plain: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=plain, indent=indent).encode()
    assert names_in(without_long_values(text)) == names_in(text)


def test_long_values_are_not_read_again() -> None:
    text = b'{"body_text": "' + b"z" * 1_000_000 + b'", "label": "x"}'
    assert without_long_values(text) == b'{"body_text": "", "label": "x"}'


@pytest.mark.parametrize("inside", [b"z", rb"\"", rb"\\", rb"\\\"", rb"\u0022"])
@pytest.mark.parametrize("first", ["label", "body_text"])
def test_a_name_that_comes_twice_around_a_long_value_is_refused(first: str, inside: bytes) -> None:
    text = b'{"%s": "1", "body_text": "%s", "label": "2"}' % (first.encode(), inside * LONG)
    with pytest.raises(BadRequest, match=f"'{first}' is there twice"):
        refuse_repeated_names(text)


def test_long_names_count_whole() -> None:
    one, other = "n" * LONG + "1", "n" * LONG + "2"
    refuse_repeated_names(json.dumps({one: 1, other: 2}).encode())
    text = f'{{"{one}" {" " * LONG * 2}: 1, "{other}": 2, "{one}": 3}}'
    with pytest.raises(BadRequest, match="twice"):
        refuse_repeated_names(text.encode())
