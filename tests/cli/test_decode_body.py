"""`posthouse decode --body`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posthouse.formats import decode
from tests.cli.conftest import Posthouse
from tests.support.format_vectors import FOLDER, MANIFEST, read

NAMES = ("xml-class", "nrbf-class", "nsb-error", "rebus-gzip", "masstransit-json", "wcf-session")
CHOSEN = [vector for vector in MANIFEST if vector["name"] in NAMES]


@pytest.mark.parametrize("vector", CHOSEN, ids=lambda vector: vector["name"])
def test_the_command_prints_what_the_function_gives(ph: Posthouse, vector: dict[str, Any]) -> None:
    options = ["--body", str(FOLDER / vector["body"]), "--body-type", str(vector["body_type"])]
    if vector["extension"]:
        options += ["--extension", str(FOLDER / vector["extension"])]
    options += ["--label", vector["label"], "--app-specific", str(vector["app_specific"])]
    options += ["--correlation-id", vector["correlation_id"] or ""]
    (line,) = ph("decode", *options, "--json").lines
    assert (
        line
        == decode(
            read(vector["body"]),
            body_type=vector["body_type"],
            extension=read(vector["extension"]),
            label=vector["label"],
            app_specific=vector["app_specific"],
        ).to_json()
    )


def test_people_see_what_failed_and_the_text(ph: Posthouse) -> None:
    files = (
        "--body",
        str(FOLDER / "nsb-error.body"),
        "--extension",
        str(FOLDER / "nsb-error.extension"),
    )
    shown = ph("decode", *files).out
    for part in (
        "nservicebus, body json",
        "Acme.Shop.Events.OrderPlaced",
        "Shop.Sales@SHOP01",
        "System.InvalidOperationException: Order 17",
        '  "OrderId": 17,',
    ):
        assert part in shown


def test_broken_bytes_are_shown_with_the_reason(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\0\x01\x02")
    result = ph("decode", "--body", str(tmp_path / "body"), "--body-type", "768")
    assert result.code == 0
    assert "ends inside an object" in result.out
    assert "00 01 02" in result.out


def test_the_code_page_of_the_sender(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xe0")
    how = ("decode", "--body", str(tmp_path / "body"), "--body-type", "30", "--json")
    assert ph(*how).lines[0]["value"] == "à"
    assert ph(*how, "--code-page", "1251").lines[0]["value"] == "а"


@pytest.mark.parametrize(
    "options", [(), ("a", "--body", "b"), ("--body", "b", "--correlation-id", "ab")]
)
def test_options_that_do_not_fit(ph: Posthouse, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert (
        ph("decode", *(str(tmp_path / "b") if name == "b" else name for name in options)).code == 2
    )


@pytest.fixture(autouse=True)
def body(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"x")
