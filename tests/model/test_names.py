"""DEST and SRC of the command line: a path or a format name."""

from __future__ import annotations

import pytest
from hypothesis import given

from posthouse.model.errors import IllegalFormatName, IllegalQueuePathname, QueueError
from posthouse.model.names import (
    MultipleName,
    Name,
    PathName,
    parse_format_name,
    parse_name,
    parse_path,
)
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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", r".\private$\orders"),
        ("orders;poison", r".\private$\orders;poison"),
        ("orders;JOURNAL", r".\private$\orders;journal"),
        ("a?b", r".\private$\a?b"),
        (r"FormatName:DIRECT=OS:winhost\private$\q", r"DIRECT=OS:winhost\private$\q"),
        ("formatname:DIRECT=OS:winhost/private$/q;x", r"DIRECT=OS:winhost\private$\q;x"),
        ("FormatName:orders", r".\private$\orders"),
        (r"FormatName:.\private$\q", r".\private$\q"),
        ("DIRECT=OS:winhost/q", r"DIRECT=OS:winhost\q"),
        ("direct=tcp:[::1]:1801/PRIVATE$/a/b", r"DIRECT=TCP:[::1]:1801\private$\a/b"),
        (r"DIRECT=OS:winhost\a/b", r"DIRECT=OS:winhost\a/b"),
        (
            "FormatName:DIRECT=OS:a/private$/q,DIRECT=TCP:1.2.3.4/r",
            r"DIRECT=OS:a\private$\q,DIRECT=TCP:1.2.3.4\r",
        ),
        ("FormatName:DIRECT=HTTP://h/msmq/private$/q", "DIRECT=HTTP://h/msmq/private$/q"),
        ("FormatName:MULTICAST=234.1.1.1:8001", "MULTICAST=234.1.1.1:8001"),
    ],
)
def test_names_are_taken_as_people_write_them(text: str, name: str) -> None:
    assert str(parse_name(text)) == name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("my queue", "'my queue' must not contain a space (character 3)"),
        ("orders ", "must not contain a space (character 7)"),
        ("a,b", "must not contain ',' (character 2)"),
        ("ord*", "'ord*' is a pattern, and one queue is to be named"),
        ("private$orders", "has no backslash after the computer name"),
        ("", "has no backslash after the computer name"),
    ],
)
def test_a_bare_name_that_cannot_be_is_refused_for_what_it_has(text: str, told: str) -> None:
    with pytest.raises(IllegalQueuePathname) as error:
        parse_name(text)
    assert told in str(error.value)


@given(near_names())
def test_a_path_is_a_name_that_is_no_format_name(text: str) -> None:
    path = attempt(parse_path, text, IllegalQueuePathname)
    name = attempt(parse_name, text, IllegalQueuePathname, IllegalFormatName)
    if isinstance(name, PathName) and not text.casefold().startswith("formatname:"):
        assert path == name


@given(format_names())
def test_stored_and_sent_names_are_read_as_strictly_as_before(name: Name) -> None:
    """What comes in packets and is in the log is not typed by people."""
    for text in (f"FormatName:{name}", "orders", "DIRECT=OS:winhost/private$/q"):
        with pytest.raises(IllegalFormatName):
            parse_format_name(text)
    with pytest.raises(IllegalQueuePathname):
        PathName.parse("orders")
