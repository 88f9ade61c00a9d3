"""The console's own files: types, texts that enter as text, and which routes it uses."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.api.routes import ROUTES
from posthouse.model.message_classes import MESSAGE_CLASSES
from tests.console.houses import CONSOLE
from tests.console.not_in_console import NOT_IN_CONSOLE
from tools import console_types

SCRIPTS = sorted(CONSOLE.rglob("*.js"))
HOW = (
    "--noEmit --allowJs --checkJs --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes "
    "--noUnusedLocals --noImplicitReturns --target ES2023 --module ES2022 "
    "--moduleResolution bundler --lib ES2023,DOM,DOM.Iterable"
)
FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser",
    r"setHTML|\beval\b|new Function|setTimeout\(\s*[\"'`]|javascript:",
    r"https?://(?!www\.w3\.org/2000/svg)",
)
CALL = re.compile(r"""\bcall\(\s*["'](\w+)["']""")
NAMES = {route.name for route in ROUTES}


def used_routes() -> set[str]:
    """The routes that pages of the console call."""
    return {name for script in SCRIPTS for name in CALL.findall(script.read_text())}


def visited_routes() -> set[str]:
    """The routes that tests in a browser name; the fixture `browser` checks that they are asked."""
    return {name for path in Path(__file__).parent.glob("test_*.py") for name in _visits(path)}


def _visits(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.visits":
            yield from (ast.literal_eval(one) for one in node.args)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_texts_enter_the_document_as_text(script: Path) -> None:
    for pattern in FORBIDDEN:
        assert re.search(pattern, script.read_text()) is None, pattern


def test_the_start_page_has_no_script_or_style_of_its_own() -> None:
    page = (CONSOLE / "index.html").read_text()
    assert re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page) is None


@pytest.mark.parametrize("path", sorted(console_types.printed()), ids=lambda path: path.name)
def test_the_types_are_those_of_the_api(path: Path) -> None:
    assert path.read_text() == console_types.printed()[path], "run python -m tools.console_types"


@pytest.mark.peer("typescript")
def test_the_scripts_have_the_right_types() -> None:
    words = ["tsc", *HOW.split(), "--types", "", str(CONSOLE / "main.js")]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_every_route_is_in_the_console_or_has_a_reason() -> None:
    used = used_routes()
    assert used <= NAMES
    assert set(NOT_IN_CONSOLE) <= NAMES
    assert not used & set(NOT_IN_CONSOLE), "these are in the console now"
    assert not NAMES - used - set(NOT_IN_CONSOLE), "these have no page and no reason"


def test_every_route_of_the_console_is_visited_in_a_browser() -> None:
    assert not used_routes() - visited_routes()


def test_every_script_is_part_of_a_page() -> None:
    texts = [script.read_text() for script in SCRIPTS]
    imported = {
        name for text in texts for name in re.findall(r"""["'][./\w]*?(\w+\.js)["']""", text)
    }
    assert {script.name for script in SCRIPTS} == (imported - {"types.js"}) | {"main.js"}


def test_every_class_of_messages_stands_with_its_meaning() -> None:
    words = (CONSOLE / "lib" / "words.js").read_text()
    for one in MESSAGE_CLASSES:
        assert one.meaning
        assert f'["{one.word}", "{one.meaning}"]' in words
    pages = {path.name: path.read_text() for path in (CONSOLE / "pages").glob("*.js")}
    bare = re.compile(r"(?<!classOf\()\b(?:row|message|group)\.class\b(?! === )")
    found = {name: len(bare.findall(text)) for name, text in pages.items() if bare.search(text)}
    assert found == {"failures.js": 3, "overview.js": 1}  # to sort and to name; as a key


def test_every_page_has_a_name_and_a_key_of_its_own() -> None:
    found = re.findall(
        r'page = \{ name: "(\w+)",.* key: "(\w)"',
        "\n".join(script.read_text() for script in SCRIPTS),
    )
    listed = re.findall(r"^  (\w+),$", (CONSOLE / "pages" / "index.js").read_text(), re.M)
    assert sorted(name for name, _ in found) == sorted(listed)
    assert len({key for _, key in found}) == len(found)
