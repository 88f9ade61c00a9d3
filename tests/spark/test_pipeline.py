"""`posthouse pipeline` with a real Spark and a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from posthouse.cli import main
from posthouse.spark.pipelines import access
from tests.process.spark_office import SparkOffice, path_of


@pytest.fixture
def piped(
    spark: SparkSession, office: SparkOffice, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """`piped(words...)`: a pipeline about the home of the office; the lines of JSON it printed."""

    def run(*words: str | Path) -> Any:
        capsys.readouterr()
        home = ("--home", str(office.server.home), "--json")
        assert main.run(["pipeline", *map(str, words), *home]) == main.DONE
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_a_queue_goes_into_a_lake_and_back(
    piped: Callable[..., Any],
    office: SparkOffice,
    queue: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, other = queue(), queue()
    office.send(name, [b"1", b"2", b"3"])
    tokens = len(office.qm.call("GET", "/tokens")["tokens"])
    lake = ("--lake", tmp_path / "lake")
    (done,) = piped("archive", path_of(name), *lake, "--consume", "--keep", "400d")
    assert (done["messages"], done["batches"]) == (3, 1)
    assert office.count(name) == 0
    count = ("sql", "SELECT count(*) AS n FROM lake.messages", *lake)
    assert (piped(*count), piped(*count, "--as-of", "0")) == ([{"n": 3}], [{"n": 0}])
    (settled,) = piped("settle", done["checkpoint"])
    assert settled["received"] == 0
    where = (*lake, "--where", "string(body) > '1'")
    destination = ("--map", f"{path_of(name)}={path_of(other)}")
    (counted,) = piped("replay", *where, *destination, "--dry-run")
    assert [one["messages"] for one in counted["destinations"]] == [2]
    assert office.count(other) == 0
    (sent,) = piped("replay", *where, *destination)
    assert sent["sent"] == 2
    assert office.bodies(other) == [b"2", b"3"]
    assert len(office.qm.call("GET", "/tokens")["tokens"]) == tokens
    words = ["pipeline", "replay", "--lake", str(tmp_path), "--to", "origin"]
    assert main.run([*words, "--home", str(office.server.home)]) == main.REFUSED
    assert "is not a lake" in capsys.readouterr().err


def test_options_lead_to_a_queue_manager_with_and_without_a_token() -> None:
    assert access(None, None) == {}
    assert access("http://a", None) == {"url": "http://a"}
    assert access(None, Path("token")) == {"tokenFile": "token"}
    assert access("http://a", "token") == {"url": "http://a", "tokenFile": "token"}
