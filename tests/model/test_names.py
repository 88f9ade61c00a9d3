"""DEST and SRC of the command line: a path or a format name."""

from __future__ import annotations

import pytest
from hypothesis import given

from posthouse.model.errors import IllegalFormatName, IllegalQueuePathname, QueueError
from posthouse.model.names import MultipleName, Name, PathName, parse_name
from tests.model.strategies import attempt, format_names, near_names, path_names


@given(path_names() | format_names())
def test_a_printed_name_is_read_back(name: Name) -> None:
    assert parse_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (r".\private$\orders", PathName),
        (r".\private$\a=b", PathName),
        (r"HOST\PUBLIC=x", PathName),
        (r"DIRECT=OS:h\q,DIRECT=OS:i\q", MultipleName),
    ],
)
def test_a_keyword_in_front_makes_a_format_name(text: str, kind: type[Name]) -> None:
    assert type(parse_name(text)) is kind


@given(near_names())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    name = attempt(parse_name, text, IllegalQueuePathname, IllegalFormatName)
    assert isinstance(name, QueueError) or parse_name(str(name)) == name
