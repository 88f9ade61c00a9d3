"""The examples of docs/formats.md: each format has one, and each gives what the page shows."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from posthouse.formats import decode
from tests.support.format_vectors import assert_has

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
SECTION = PAGE.read_text("utf-8").partition("## One example")[2].partition("\n## ")[0]
EXAMPLES = [
    tuple(map(json.loads, block.strip().splitlines()))
    for block in re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)
]
FORMATS = "xml activex nrbf nservicebus rebus masstransit wcf json text bytes empty"


@pytest.mark.parametrize(("message", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_gives_what_it_shows(message: dict[str, Any], shown: dict[str, Any]) -> None:
    encoded = message.pop("body_base64", None)
    body = message.pop("body", "").encode() if encoded is None else b64decode(encoded)
    extension = message.pop("extension", "").encode()
    found = decode(body, extension=extension, **message).to_json()
    assert_has(json.loads(json.dumps(found)), shown)
    assert found.get("error") == shown.get("error")


def test_every_format_has_an_example() -> None:
    assert {shown["format"] for _, shown in EXAMPLES} == set(FORMATS.split())
