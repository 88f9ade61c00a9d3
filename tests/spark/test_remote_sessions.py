"""Which Spark a session is of, and what a server of Spark Connect has to share with a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from posthouse.cli import main
from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.files import Added
from posthouse.spark.lakes.shared_tally import SharedTally, Tally, check_shared
from posthouse.spark.sessions import classic, is_connect, remote_of, session
from tools import spark_packages

SERVER = "sc://spark:15002"


def test_a_master_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert remote_of(None, None) is None
    assert remote_of(None, SERVER) == SERVER
    monkeypatch.setenv("SPARK_REMOTE", SERVER)
    assert remote_of(None, None) == SERVER
    assert remote_of("local[2]", None) is None


@pytest.mark.parametrize("remote", ["spark:15002", "local[2]", "http://spark:15002"])
def test_the_address_of_a_server_begins_with_its_scheme(remote: str) -> None:
    with pytest.raises(InvalidParameter, match="is not the address of a Spark Connect server"):
        remote_of(None, remote)


def test_one_spark_is_named() -> None:
    with pytest.raises(InvalidParameter, match="Name one of them"):
        session("x", "local[2]", SERVER)


def test_a_server_needs_packages_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install .*\[connect\]'"):
        session("x", remote=SERVER)


def test_a_session_with_java_is_no_connect_session(spark: SparkSession) -> None:
    assert not is_connect(spark)
    assert classic(spark, "replay") is spark


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "--lake", "lake", "--to", "origin"],
        ["deadletters"],
        ["latency"],
        ["traffic"],
    ],
)
def test_commands_that_need_java_name_the_remedy(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("token", "ascii")
    monkeypatch.setenv("SPARK_REMOTE", SERVER)
    access = ["--url", "http://127.0.0.1:9", "--token-file", str(tmp_path / "token")]
    access += ["--queue", "orders"] if words[0] in ("latency", "traffic") else []
    assert main.run(["pipeline", *words, *access]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"pipeline {words[0]} does not run over Spark Connect" in said
    assert "Name a master" in said


def test_a_server_has_to_see_what_the_command_has_written(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    tally = SharedTally(checkpoint)
    with pytest.raises(InvalidParameter, match="does not see"):
        check_shared(str(checkpoint), "run")
    run = tally.begin()
    check_shared(str(checkpoint), run)
    with pytest.raises(InvalidParameter, match="mount under one path"):
        check_shared(str(checkpoint), "of another run")
    tally.path.write_bytes(b"not JSON")
    with pytest.raises(InvalidParameter, match="does not see"):
        check_shared(str(checkpoint), run)
    tally.end()
    tally.end()


def test_the_tally_counts_batches(tmp_path: Path) -> None:
    tally = SharedTally(tmp_path / "checkpoint")
    run = tally.begin()
    tally.add(Added(), 7)
    assert tally.read() == Tally(run, batches=1, last=7)


def test_packages_of_other_sparks_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert spark_packages.main([]) == 2
    assert spark_packages.main(["pyspark-3"]) == 2
    assert "connect | pyspark-4.2" in capsys.readouterr().err
