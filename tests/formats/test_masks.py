"""Masks: what a path names is gone from the text, whatever the body tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats import masks
from posthouse.formats.masks import BODY_MAX, MASKED, Masks, parse_mask
from posthouse.model.errors import InvalidParameter

SECRET = "4111"


def masked(body: str | bytes, *paths: str) -> str | None:
    data = body.encode() if isinstance(body, str) else body
    text = body if isinstance(body, str) else None
    return Masks(map(parse_mask, paths)).masked(data, text)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("$.card.number", '{"card": {"number": "4111"}}'),
        ("$.card", '{"card": {"number": "4111"}}'),
        ("$..number", '{"a": [{"b": {"number": ["4111"]}}], "number": 4111}'),
        ("$.cards[*].number", '{"cards": [{"number": "4111"}, {"number": "4111"}]}'),
        ("$.cards[1]", '{"cards": ["x", "4111"]}'),
        ("$['card number']", '{"card number": "4111"}'),
        ("$.Card", '{"c\\u0061rd": "4111"}'),
        ("$.card", '{"card": "4111", "card": "x"}'),
        ("$.card", '\ufeff{"CARD": "4111"}'),
        ("$.*.number", '{"x": {"number": "4111"}}'),
        ("$..*", '{"x": {"y": "4111"}}'),
        ("//number", "<o><c><number>4111</number></c></o>"),
        ("//number", '<o xmlns:p="urn:x"><p:Number>4111</p:Number></o>'),
        ("//number", "<o><number><![CDATA[4111]]></number></o>"),
        ("//number", "<o><number>&#52;111</number></o>"),
        ("//number", "<o><number a='4111'><deep>4111</deep>4111</number></o>"),
        ("/o/c/@number", "<o><c number='4111'/></o>"),
        ("//@number", "<o number='4111'><c><d number='4111'/></c></o>"),
        ("/o/*/number", "<o><c><number>4111</number></c></o>"),
        ("//number", "<o><!-- 4111 --><number>4111</number></o>"),
    ],
)
def test_what_a_path_names_is_gone(path: str, body: str) -> None:
    found = masked(body, path)
    assert found is not None
    assert SECRET not in found
    assert MASKED in found


@pytest.mark.parametrize(
    ("paths", "body"),
    [
        (["$.card"], "<card>4111</card>"),
        (["//card"], '{"card": "4111"}'),
        (["$.card"], "card=4111"),
        (["$.card"], '{"card": "4111"'),
        (["$.card"], '{"card": "4111"} {"card": "4111"}'),
        (["$.card"], "[" * 100_000),
        (["//card"], "<!DOCTYPE o [<!ENTITY e '4111'>]><o><card>&e;</card></o>"),
        (["//card"], "<o><card>4111</o>"),
        (["//card"], "<a>" * 100_000),
        (["$.card", "//card"], b"\x00\x01\x00\x00\x00\xff\xff\xff\xff4111"),
        (["$.card"], '{"card": ' + "9" * 5000 + "}"),
        (["$.card"], '"' + "4111" * (BODY_MAX // 4) + '"'),
    ],
)
def test_a_body_that_cannot_be_masked_is_not_shown(paths: list[str], body: str | bytes) -> None:
    found = masked(body, *paths)
    assert found is None or SECRET not in found


def test_all_else_stays() -> None:
    body = '{"order": 5, "card": {"number": "4111"}, "lines": [1.5, null, true]}'
    assert masked(body, "$..number") == (
        '{"order":5,"card":{"number":"***"},"lines":[1.5,null,true]}'
    )
    assert masked("<o><a>1</a><b>2</b>t</o>", "/o/b") == "<o><a>1</a><b>***</b>t</o>"
    assert masked('{"a": 1}', "$.b") == '{"a":1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "/",
        "card",
        "$.",
        "$[",
        "$[-1]",
        "$[?(@.x)]",
        "//a[1]",
        "/@a/b",
        "$.a|$.b",
        "//",
        "$ .a",
    ],
)
def test_other_paths_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_mask(text)
    with pytest.raises(InvalidParameter):
        parse_mask("$" + ".a" * 300)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["card", "Card", "x", "y"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_no_value_of_the_name_is_left_at_any_depth(value: object) -> None:
    import json

    found = masked(json.dumps({"top": value}), "$..card")
    assert found is not None

    def check(one: object) -> None:
        if isinstance(one, dict):
            for name, inner in one.items():
                assert name.casefold() != "card" or inner == MASKED
                check(inner)
        elif isinstance(one, list):
            for inner in one:
                check(inner)

    check(json.loads(found))


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_body_gets_an_answer(body: bytes | str) -> None:
    masked(body, "$..card", "//card", "//@card")


@pytest.mark.parametrize(
    ("path", "body", "size"),
    [
        ("$..a..a..b", '{"a":' * 200 + "[" + "1," * 999 + "1]" + "}" * 200, 1200),
        ("//a//a//b", "<a>" * 200 + "<c/>" * 1000 + "</a>" * 200, 1200),
        ("//a//a//@b", "<a>" * 200 + "<c d=''/>" * 1000 + "</a>" * 200, 1200),
    ],
)
def test_the_work_grows_with_the_body_and_not_with_its_depth(
    path: str, body: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of a stranger has names of the path in each other."""
    compared = 0

    def counting(function: Callable[..., bool]) -> Callable[..., bool]:
        def counted(*arguments: object) -> bool:
            nonlocal compared
            compared += 1
            return function(*arguments)

        return counted

    monkeypatch.setattr(masks, "_matches", counting(masks._matches))
    monkeypatch.setattr(masks, "_is_named", counting(masks._is_named))
    assert masked(body, path) is not None
    assert size <= compared <= 4 * size
