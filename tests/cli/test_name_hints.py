"""A hint about a name is a name that is accepted, or there is none."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.cli.name_hints import spelling
from posthouse.model.error_table import explain
from posthouse.model.errors import IllegalFormatName, IllegalQueuePathname, QueueError
from posthouse.model.names import parse_name

COMPUTERS = st.sampled_from((".", "winhost", "DIRECT=OS:winhost", "DIRECT=TCP:1.2.3.4", "a b", ""))
QUEUES = st.sampled_from(("orders", "order_queue$", "my queue", "orders;journal", "a/b", "", "x,y"))
SEPARATORS = st.sampled_from(("\\", "/", ""))
KINDS = st.sampled_from(("private$", "private", "PRIVATE$", "system$", "system$;journal"))


@st.composite
def mistyped(draw: st.DrawFn) -> str:
    """What shells, habits and slips of the hand leave of a name."""
    return "".join(map(draw, (COMPUTERS, SEPARATORS, KINDS, SEPARATORS, QUEUES)))


@example("DIRECT=OS:winhost\\private\\q")
@example("./private$orders")
@example(".private$orders")
@given(mistyped())
def test_a_hint_is_accepted_when_it_is_followed(text: str) -> None:
    hint = spelling(text)
    for name in re.findall(r"'([^']+)'", hint):
        parse_name(name)
        assert spelling(name) == ""


@pytest.mark.parametrize("kind", [IllegalFormatName, IllegalQueuePathname])
def test_a_remedy_names_names_that_are_accepted(kind: type[QueueError]) -> None:
    names = re.findall(r"\S*private\$\S*[^\s,.]", explain(kind.code).remedy)
    assert names
    for name in names:
        parse_name(name)
