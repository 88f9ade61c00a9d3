"""Every example of docs/python.md runs, in order, with one queue manager."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import posthouse
from posthouse.protocols.binary.settings import BinarySettings
from tests.client.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_every_example_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTHOUSE_HOME", str(home))
    assert len(BLOCKS) > 8
    with serving(home, binary=BinarySettings()) as server:
        names: dict[str, object] = {"__name__": "__example__", "binary_port": server.binary_port}
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "order 2 b'{\"customer\":7}'" in said
    assert "['four', 'one', 'three', 'two']" in said
    assert "b'second'" in said
    assert "{'customer': 7}" in said
    assert "'straight from here', 'through the local one', 'through the local queue" in said
    assert "this session has been closed" in said


def test_every_public_name_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    classes = (posthouse.Queue, posthouse.QueueManagerClient, posthouse.Message)
    methods = {name for kind in classes for name in vars(kind) if not name.startswith("_")}
    missing = {name for name in methods if not re.search(rf"\b{name}\b", text)}
    assert missing <= {"body_size", "guid", "delete_queue"}


def test_every_type_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    types = {name for name in posthouse.__all__ if isinstance(getattr(posthouse, name), type)}
    assert {name for name in types if not re.search(rf"`(posthouse\.)?{name}`", text)} == set()
