"""Queue patterns of tokens."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.security.patterns import check_pattern, matches_pattern


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (r".\private$\orders", r"private$\orders"),
        (r"private$\Orders*", r".\Private$\ordersEU"),
        ("private$/orders?", r".\private$\orders7"),
        ("*", r".\system$;journal"),
        (r"*\a*b*c", r"private$\aXXbYYbZZc"),
    ],
)
def test_a_pattern_covers_a_queue(pattern: str, path: str) -> None:
    assert matches_pattern(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (r"private$\orders", r".\private$\orders;journal"),
        (r"private$\orders", r"other\private$\orders"),
        (r"private$\orders?", r".\private$\orders"),
        (r"private$\o[a-z]ders", r".\private$\orders"),
        ("", r".\private$\orders"),
    ],
)
def test_a_pattern_covers_nothing_else(pattern: str, path: str) -> None:
    assert not matches_pattern(pattern, path)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_means_what_the_regular_expression_means(pattern: str, path: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(sign, sign) for sign in pattern)
    assert matches_pattern(pattern, path) == bool(re.fullmatch(expression, path))


def test_a_hostile_pattern_ends() -> None:
    assert not matches_pattern("a*" * 100 + "b", "a" * 400)


def test_empty_and_endless_patterns_are_refused() -> None:
    for pattern in ("", "x" * 257):
        with pytest.raises(InvalidParameter):
            check_pattern(pattern)
    assert check_pattern("./Private$/Orders") == r"private$\orders"
