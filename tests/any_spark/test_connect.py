"""`pipeline archive` and `pipeline sql` over Spark Connect, with a real server on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.any_spark.programs import (
    environment,
    facts,
    ran,
    running,
    spark_class,
    wait_for,
)
from tests.process.offices import free_port
from tests.process.spark_cluster import masked
from tests.process.spark_office import SparkOffice

pytestmark = pytest.mark.timeout(1200)  # several Javas start, beside whatever else runs

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the server does not see."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, elsewhere: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    log = folder / "server.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": folder / "local",
    }
    words = ["--master", "local[2]", "--class", SERVER]
    words += [f"--conf={name}={value}" for name, value in settings.items()]
    command = spark_class("org.apache.spark.deploy.SparkSubmit", *words, "spark-internal")
    with running(masked(command, elsewhere), environment("connect"), log):
        wait_for(log, "Spark Connect server started at")
        yield f"sc://127.0.0.1:{port}"


def pipeline(office: SparkOffice, server: str, *words: str, code: int = 0) -> tuple[str, str]:
    access = ["--url", office.url, "--token-file", str(office.token_file)]
    env = environment("connect", SPARK_REMOTE=server)
    return ran(["-m", "posthouse", "pipeline", *words, *access], env, code)


def test_archive_runs_over_connect(office: SparkOffice, server: str, tmp_path: Path) -> None:
    office.create("connected")
    office.send("connected", [b"%d" % number for number in range(500)])
    lake = str(tmp_path / "lake")
    words = ["archive", "./private$/connected", "--lake", lake, "--consume", "--batch", "200"]
    done = json.loads(pipeline(office, server, *words, "--json")[0])
    assert (done["messages"], done["batches"], done["stopped"]) == (500, 3, False)
    assert done["files"] >= 3
    kept = DeltaTable(lake).to_pyarrow_table().sort_by("lookup_id")["body"].to_pylist()
    assert kept == [b"%d" % number for number in range(500)]
    assert office.bodies("connected") == []
    office.send("connected", [b"more"])
    again = json.loads(pipeline(office, server, *words, "--json")[0])
    assert again["messages"] == 1


def test_sql_runs_over_connect(office: SparkOffice, server: str, tmp_path: Path) -> None:
    office.create("asked")
    office.send("asked", [b'{"n": 1}', b'{"n": 2}'])
    statement = "select count(*) n, max(decode_text(body)) t from posthouse.alpha.asked"
    out = pipeline(office, server, "sql", statement, "--engine", "spark", "--json")[0]
    assert json.loads(out) == {"n": 2, "t": '{\n  "n": 2\n}'}
    _, said = pipeline(office, server, "sql", "drop table x", "--engine", "spark", code=1)
    assert "DropTable is not part of a SELECT" in said


def test_programs_start_beside_a_connection(server: str) -> None:
    """The parser's Java is started the way these are; gRPC ended one of fifty."""
    program = (
        "import os, sys, subprocess\n"
        "from posthouse.spark import session\n"
        "spark = session(remote=sys.argv[1])\n"
        "ends = []\n"
        "for number in range(300):\n"
        "    if number % 10 == 0:\n"
        "        spark.range(1).count()\n"
        "    child = subprocess.Popen(['/bin/true'], preexec_fn=os.getpid)\n"
        "    ends.append(child.wait())\n"
        "print(sum(map(abs, ends)))\n"
    )
    assert ran(["-c", program, server], environment("connect"))[0].split()[-1] == "0"


def test_statements_are_guarded_over_connect(
    office: SparkOffice, server: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of this machine", "ascii")
    words = (office.url, str(office.token_file), server, str(secret))
    found = facts(["-m", "tests.any_spark.attacker", *words], environment("connect"))
    assert found["attacks"] > 100
    assert found["not_refused"] == []


def test_a_server_that_does_not_see_the_folder_is_refused(
    office: SparkOffice, server: str, elsewhere: Path
) -> None:
    office.create("apart")
    office.send("apart", [b"1"])
    words = ["archive", "./private$/apart", "--lake", str(elsewhere / "lake"), "--consume"]
    _, said = pipeline(office, server, *words, code=1)
    assert "the Spark Connect server does not see" in said
    assert "mount under one path" in said
    assert office.bodies("apart") == [b"1"]


def test_other_pipelines_name_the_remedy(office: SparkOffice, tmp_path: Path) -> None:
    words = ["replay", "--lake", str(tmp_path), "--to", "origin"]
    _, said = pipeline(office, "sc://127.0.0.1:1", *words, code=1)
    assert "pipeline replay does not run over Spark Connect" in said
    _, said = pipeline(office, "local[2]", "sql", "select 1", "--engine", "spark", code=1)
    assert "Write it as sc://host:15002" in said
