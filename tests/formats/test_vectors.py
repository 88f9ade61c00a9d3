"""Every message of tests/vectors/formats decodes to what its manifest has."""

from __future__ import annotations

import json
from typing import Any
from xml.etree.ElementTree import canonicalize

import pytest

from posthouse.formats import decode
from tests.support.format_vectors import FOLDER, MANIFEST, assert_has, exact, read

OF_TESTS = {"outcome", "limits", "reason", "value_also", "value", "value_file", "envelopes"}


def decoded(vector: dict[str, Any]) -> dict[str, Any]:
    result = decode(
        read(vector["body"]),
        body_type=vector["body_type"],
        extension=read(vector["extension"]),
        label=vector["label"],
        app_specific=vector["app_specific"],
    ).to_json()
    again: dict[str, Any] = json.loads(json.dumps(result, allow_nan=False))
    return again


def expected_values(expect: dict[str, Any]) -> list[Any]:
    if "value_file" in expect:
        return [json.loads((FOLDER / expect["value_file"]).read_text("utf-8"))]
    return [expect["value"], *expect.get("value_also", ())] if "value" in expect else []


@pytest.mark.parametrize("vector", MANIFEST, ids=lambda vector: vector["name"])
def test_vector(vector: dict[str, Any]) -> None:
    expect, found = vector["expect"], decoded(vector)
    assert "error" not in found
    assert_has(found, {key: value for key, value in expect.items() if key not in OF_TESTS})
    values = expected_values(expect)
    assert not values or exact(found["value"]) in map(exact, values)
    for mine, theirs in zip(found.get("envelopes", ()), expect.get("envelopes", ()), strict=True):
        same = {"xml", "xml_also"}
        assert {key: mine.get(key) for key in theirs if key not in same} == {
            key: value for key, value in theirs.items() if key not in same
        }
        either = [theirs["xml"], *theirs.get("xml_also", ())]
        assert c14n(mine["xml"]) in map(c14n, either)


def c14n(xml: str) -> str:
    return canonicalize(xml, with_comments=True)
