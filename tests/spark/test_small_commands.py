"""`posthouse pipeline sql` without Spark, over real queues and a lake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from posthouse.cli import main
from posthouse.spark.lakes.files import LakeFiles
from tests.process.spark_office import SparkOffice, path_of
from tests.spark.lake_samples import add

Command = Callable[..., tuple[int, str, str]]
ALONE = """
import sys
from posthouse.cli import main
code = main.run(sys.argv[1:])
loaded = [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]
sys.exit(code or len(loaded))
"""


@pytest.fixture
def command(office: SparkOffice, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `posthouse pipeline sql ...` for the office."""

    def run(*words: str, token_file: Path | None = None) -> tuple[int, str, str]:
        access = ["--url", office.url, "--token-file", str(token_file or office.token_file)]
        code = main.run(["pipeline", "sql", *words, *access])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_small_question_loads_no_spark(office: SparkOffice, queue: Callable[..., str]) -> None:
    name = queue()
    office.send(name, [b"a", b"b"])
    access = ["--url", office.url, "--token-file", str(office.token_file), "--json"]
    words = ["pipeline", "sql", f"SELECT count(*) FROM queues.{name}", *access]
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, *words], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (0, '{"count(1)":2}\n'), ended.stderr


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_the_catalog_names_a_manager(
    office: SparkOffice,
    branch: SparkOffice,
    queue: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    engine: str,
    spark: object,
) -> None:
    name = queue()
    office.send(name, [b"a", b"b"])
    branch.create(f"{name}{engine}")
    branch.send(f"{name}{engine}", [b"c"])
    access = ["--url", f"{office.url},{branch.url}", "--engine", engine, "--json"]
    access += ["--token-file", f"{office.token_file},{branch.token_file}"]
    statement = (
        f"select queue_manager, count(*) n from posthouse.alpha.{name} group by 1 union all"
        f" select queue_manager, count(*) from posthouse.bravo.{name}{engine} group by 1 order by 1"
    )
    assert main.run(["pipeline", "sql", statement, *access]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"queue_manager": "ALPHA", "n": 2}, {"queue_manager": "BRAVO", "n": 1}]


def test_rows_come_in_every_format(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    name = queue(journal=True)
    office.send(name, [b"a", b"b\x1b[2J"])
    office.qm.queue(path_of(name)).receive(timeout=5)
    office.send(name, [b"=1+1"])
    statement = (
        f"select cast(body as string) as text, priority from queues.{name}"
        f" union all select cast(body as string), priority from journals.{name} order by text"
    )
    code, out, _ = command(statement, "--engine", "duckdb")
    assert (code, "\x1b" in out, "text" in out) == (0, False, True)
    lines = command(statement, "--format", "csv", "--engine", "duckdb")[1].splitlines()
    assert lines == ["text,priority", "'=1+1,3", "a,3", "b\x1b[2J,3"]
    rows = command(statement, "--json", "--engine", "duckdb")[1].splitlines()
    assert [json.loads(row)["text"] for row in rows] == ["=1+1", "a", "b\x1b[2J"]
    file = tmp_path / "rows.parquet"
    assert command(statement, "--format", "parquet", "--out", str(file))[0] == 0
    assert pq.read_table(file).num_rows == 3
    code, _, err = command(statement, "--limit", "1")
    assert "more than 1 rows" in err


def test_first_rows_of_a_queue_are_the_oldest(
    command: Command, office: SparkOffice, queue: Callable[..., str]
) -> None:
    name = queue()
    office.send(name, [str(number).encode() for number in range(500)])
    statement = (
        f"select cast(body as string) b from (select * from queues.{name} limit 3) order by b"
    )
    assert command(f"select body from queues.{name} limit 2", "--json")[1].count("\n") == 2
    assert command(statement, "--format", "csv")[1].split() == ["b", "0", "1", "2"]


def test_rights_of_a_token_hold(
    command: Command, office: SparkOffice, queue: Callable[..., str], tmp_path: Path
) -> None:
    """Who may not look into a queue gets nothing of it, and nothing of its journal."""
    seen, hidden = queue(), queue(journal=True)
    office.send(hidden, [b"secret"])
    office.send(seen, [b"open"])
    body = {"role": "read", "queues": [f"ALPHA\\private$\\{seen}=peek,get-properties"]}
    token_file = tmp_path / "token"
    token_file.touch(0o600)
    token_file.write_text(office.qm.call("POST", "/tokens", body)["token"], encoding="ascii")
    code, out, _ = command(f"select count(*) n from queues.{seen}", "--json", token_file=token_file)
    assert (code, out) == (0, '{"n":1}\n')
    for table in (f"queues.{hidden}", f"journals.{hidden}"):
        for columns in ("count(*)", "body"):
            code, out, err = command(f"select {columns} from {table}", token_file=token_file)
            assert (code, out) == (1, ""), table
            assert "secret" not in err
            assert len(err.splitlines()) == 1
    shown = command("show tables", "--json", token_file=token_file)[1]
    assert seen in shown
    assert hidden not in shown


def test_a_lake_is_asked_with_or_without_its_past(command: Command, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    files.create()
    add(files, range(1, 6), 0)
    statement = "select queue, day, count(*) n, max(label) l from lake.messages group by all"
    code, out, err = command(statement, "--lake", str(lake), "--json", "--engine", "duckdb")
    assert code == 0, err
    assert sum(json.loads(line)["n"] for line in out.splitlines()) == 5
    code, out, _ = command(
        "select count(*) n from lake.messages", "--lake", str(lake), "--as-of", "0", "--json"
    )
    assert (code, out) == (0, '{"n":0}\n')


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("select rank() over (order by label) from queues.{}", "only Spark"),
        ("select 1/0 as n", "division by zero"),
        ("select lable from queues.{}", "Did you mean label?"),
        ("select * from queues.nowhere", "SHOW TABLES lists them"),
        ("drop table queues.{}", "only Spark"),
    ],
)
def test_what_is_refused_is_one_line(
    command: Command, queue: Callable[..., str], statement: str, words: str
) -> None:
    code, out, err = command(statement.format(queue()), "--engine", "duckdb")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert words in err
