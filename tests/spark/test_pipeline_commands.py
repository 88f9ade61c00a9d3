"""`posthouse pipeline deadletters|latency|sql|run` as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from posthouse.cli import main
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    spark: SparkSession,
    office: SparkOffice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Runs `posthouse pipeline ...` for the office, in the session that is there and stays."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        access = ["--url", office.url, "--token-file", str(office.token_file)]
        code = main.run(["pipeline", *arguments, *access])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def letters(office: SparkOffice, queue: Callable[..., str]) -> str:
    """A queue of which three messages have become dead letters."""
    name = queue()
    target = office.qm.queue(path_of(name))
    for number in range(3):
        target.send(f"order {number}".encode(), label="\x1b[2Jorder", dead_letter=True)
    target.purge()
    return name


def test_dead_letters_are_told_written_and_sent_again(
    command: Command, office: SparkOffice, letters: str, tmp_path: Path
) -> None:
    code, out, _ = command("deadletters", "--out", str(tmp_path))
    assert code == 0
    assert "nack-queue-purged" in out
    assert "\x1b" not in out
    assert (tmp_path / "report.html").stat().st_size > 1000
    clusters = pq.read_table(tmp_path / "clusters.parquet").to_pylist()
    (own,) = [one["cluster"] for one in clusters if one["destination"].endswith(letters)]
    assert own in out
    code, out, _ = command("deadletters", "--resend", own, "--json")
    assert (code, json.loads(out)["done"], office.count(letters)) == (0, 3, 3)


def test_latencies_are_told_and_written(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    name = queue()
    office.send(name, [b"x"] * 3)
    code, out, _ = command("latency", "--queue", path_of(name), "--out", str(tmp_path))
    assert code == 0
    assert "From send to arrival" in out
    assert pq.read_table(tmp_path / "by_route.parquet").num_rows == 1


def test_traffic_is_told_and_written(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    name = queue()
    office.send(name, [b"<a/>", b"<a", b"{}"])
    code, out, _ = command("traffic", "--queue", path_of(name), "--out", str(tmp_path))
    assert code == 0
    assert "3 messages, 1 of them not readable." in out
    assert "Not readable" in out
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert pq.read_table(tmp_path / "by_format.parquet").num_rows == 2
    code, out, _ = command("traffic", "--queue", path_of(name), "--json")
    tables = {json.loads(line)["table"] for line in out.splitlines()}
    assert (code, tables) == (0, {"by_queue", "by_format", "by_type", "unreadable", "by_hour"})


def test_sql_gives_rows_in_every_format(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    name = queue()
    office.send(name, [b"a", b"b\x1b[2J"])
    statement = f"select string(body) as text, priority from queues.{name} order by lookup_id"
    code, out, _ = command("sql", statement)
    assert (code, "\x1b" in out, "text" in out) == (0, False, True)
    assert command("sql", statement, "--format", "csv")[1].splitlines()[:2] == [
        "text,priority",
        "a,3",
    ]
    rows = [json.loads(line) for line in command("sql", statement, "--json")[1].splitlines()]
    assert rows == [{"text": "a", "priority": 3}, {"text": "b\x1b[2J", "priority": 3}]
    file = tmp_path / "rows.parquet"
    code, out, _ = command("sql", statement, "--format", "parquet", "--out", str(file))
    assert (code, pq.read_table(file).num_rows) == (0, 2)
    code, _, err = command("sql", statement, "--limit", "1")
    assert "more than 1 rows" in err


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("drop table queues.x", "MQ_ERROR_INVALID_PARAMETER"),
        ("select reflect('java.lang.System', 'exit', 1)", "'reflect' is not allowed"),
        ("select * from queues.nowhere", "SHOW TABLES lists them"),
        ("select 1/0 as n", "DIVIDE_BY_ZERO"),
    ],
)
def test_sql_that_is_refused_is_one_line(command: Command, statement: str, words: str) -> None:
    code, out, err = command("sql", statement)
    assert (code, out) == (1, "")
    *logged, said = err.splitlines()
    assert words in said
    assert all(line.startswith("{") for line in logged), "what PySpark logs by itself"


def test_a_file_is_run(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    name = queue()
    office.send(name, [b"a", b"b"])
    file = tmp_path / "flow.py"
    file.write_text(
        "from posthouse.spark.flows import reads, table\n"
        f"@reads('./private$/{name}')\ndef read(m): return m.select('label')\n"
        "@table\ndef rows(read): return read\n",
        encoding="utf-8",
    )
    code, out, _ = command("run", str(file), "--out", str(tmp_path), "--json")
    assert code == 0
    value: Any = json.loads(out)
    assert (value["name"], value["rows"]) == ("rows", 2)


def test_parquet_needs_a_file(command: Command) -> None:
    code, _, err = command("sql", "select 1", "--format", "parquet")
    assert code == 2
    assert "--out" in err


def test_spark_that_cannot_start_is_said_in_a_line_with_the_master(office: SparkOffice) -> None:
    access = ["--url", office.url, "--token-file", str(office.token_file)]
    words = ["pipeline", "sql", "select 1", "--engine", "spark", "--master", "local[0]", *access]
    program = [sys.executable, "-m", "posthouse.cli.main", *words]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (1, "")
    said, log = ended.stderr.splitlines()
    assert "Spark did not start on local[0]. Check --master" in said
    kept = Path(log.removeprefix("The rest of its output is in ").removesuffix("."))
    assert "0 threads" in kept.read_text(encoding="utf-8", errors="replace")
    kept.unlink()
