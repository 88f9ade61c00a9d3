"""The Spark queue server at work: SQL, pipelines and programs, on one machine and on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from posthouse.spark.worker_home import spark_home
from tests import fast_java
from tests.conftest import Dose
from tests.process.offices import wait_until
from tests.process.spark_cluster import Cluster
from tests.process.spark_office import SparkOffice, path_of

pytest.importorskip("pyspark")

QUEUE = "WORK"
END_S = 600.0
ORDERS = 30
SQL, PIPELINE, PYSPARK = 0x5101, 0x5102, 0x5103

PROGRAM = r"""
import os
from posthouse.spark import session

spark = session("a program")
access = {"url": os.environ["POSTHOUSE_URL"], "tokenFile": os.environ["POSTHOUSE_TOKEN_FILE"]}
reader = spark.read.format("posthouse").options(**access)
print("counted", reader.option("queue", r".\private$\orders").load().count())
spark.stop()
"""
SLOW = b"""
import os, time
with open(os.environ["POSTHOUSE_JOB_PROGRESS"], "w") as progress:
    progress.write("1/2 asleep\\n")
time.sleep(3)
print("awake")
"""


class Clerk:
    """`posthouse job server spark` as a process."""

    def __init__(self, office: SparkOffice, folder: Path, master: str, *options: str) -> None:
        self.log = folder / "server.txt"
        words = ["job", "server", "spark", "--home", str(office.server.home), "--queue", QUEUE]
        words += ["--lake", str(folder / "lake"), "--out", str(folder / "out"), "--trust-code"]
        words += ["--master", master, "--enrol", "--poll", "0.1", "--retry", "0", *options]
        # Programs have a clean environment: the Java of theirs starts as fast as that of tests.
        java = os.environ.get(fast_java.OPTIONS, "")
        words += ["--conf", f"spark.driver.extraJavaOptions={java}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "posthouse.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_HOME": str(spark_home()),
                },
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self) -> None:
        """Until it ends, with the code that says that some jobs failed."""
        assert self.process.wait(END_S) == 1, self.said()

    def kill(self) -> None:
        """`kill -9` of the program alone: what it started has to notice."""
        self.process.kill()
        self.process.wait()

    def gone(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def office(tmp_path: Path) -> Iterator[SparkOffice]:
    with ExitStack() as running:
        made = SparkOffice(tmp_path / "alpha", running)
        made.create("orders", "answers", "copies")
        made.send("orders", [b"order %d" % n for n in range(ORDERS)])
        body = {"name": QUEUE, "users": ["EVERYONE"], "operators": ["SUPERVISOR"]}
        made.qm.call("POST", "/job-queues", body)
        properties = f"/bindery/objects/job_queue/{QUEUE}/properties"
        made.qm.call("POST", f"{properties}/Q_CODE_USERS/add", {"name": "SUPERVISOR"})
        yield made


def submit(office: SparkOffice, type: int, data: bytes, **more: Any) -> int:
    """A job, whole; its number."""
    from base64 import b64encode

    body = {"type": type, "file": b64encode(data).decode(), **more}
    return int(office.qm.call("POST", f"/job-queues/{QUEUE}/jobs", body)["number"])


def order(**values: Any) -> bytes:
    return json.dumps(values).encode()


def ends(office: SparkOffice) -> dict[int, dict[str, Any]]:
    rows = office.qm.call("GET", f"/job-history?queue={QUEUE}&limit=1000")["jobs"]
    return {row["number"]: row for row in rows}


def six(office: SparkOffice) -> list[int]:
    """SQL and pipelines; the end of one of them is told to a queue."""
    count = b"SELECT count(*) AS n, min(priority) AS p FROM queues.orders"
    answers = path_of("answers")
    queues = [path_of("orders")]
    return [
        submit(office, SQL, count, response_queue=answers),
        submit(office, SQL, b"DROP TABLE queues.orders"),
        submit(office, PIPELINE, order(pipeline="archive", queues=queues)),
        submit(office, PIPELINE, order(pipeline="replay", to=path_of("copies"), dry_run=True)),
        submit(office, SQL, b"SELECT outcome, count(*) AS n FROM jobs.history GROUP BY outcome"),
        submit(
            office, PIPELINE, order(pipeline="sql", statement="SELECT 1 AS one", lake="nowhere")
        ),
    ]


def check_six(office: SparkOffice, numbers: list[int]) -> None:
    found = [ends(office)[number] for number in numbers]
    assert [one["outcome"] for one in found] == [
        "finished",
        "failed",
        "finished",
        "finished",
        "finished",
        "failed",
    ], found
    counted = json.loads(found[0]["result"])
    assert counted["first"] == [{"n": ORDERS, "p": 3}]
    rows = Path(counted["file"])
    assert [one.stat().st_mode & 0o077 for one in (rows, rows.parent)] == [0, 0]  # its user's own
    assert "DropTable" in found[1]["result"]
    assert json.loads(found[2]["result"])["pipeline"] == "archive"
    assert json.loads(found[3]["result"]) == {
        "pipeline": "replay",
        "lake": "lake",
        "messages": ORDERS,
        "sent": 0,
        "dry_run": True,
    }
    assert {row["outcome"] for row in json.loads(found[4]["result"])["first"]} >= {"finished"}
    assert "no lake nowhere" in found[5]["result"]


def check_programs(office: SparkOffice, numbers: list[int]) -> None:
    for number in numbers:
        row = ends(office)[number]
        assert (row["outcome"], row["result"]) == ("finished", f"counted {ORDERS}"), row


def check_answers(office: SparkOffice, count: int) -> None:
    told = [json.loads(body) for body in office.bodies("answers")]
    assert [one["outcome"] for one in told] == ["finished"] * count
    assert all(json.loads(one["result"])["rows"] == 1 for one in told)


@pytest.mark.spec("QMS Servicing/14")
def test_jobs_of_all_kinds_are_serviced_on_one_machine(
    office: SparkOffice, tmp_path: Path, dose: Dose
) -> None:
    """Programs are run, and so are statements and pipelines."""
    sets, programs = dose(1, soak=15), dose(1, soak=10)
    numbers = [six(office) for _ in range(sets)]
    coded = [submit(office, PYSPARK, PROGRAM.encode()) for _ in range(programs)]
    clerk = Clerk(office, tmp_path, "local[2]", "--jobs", str(6 * sets + programs))
    try:
        clerk.wait()
    finally:
        clerk.gone()
    for one in numbers:
        check_six(office, one)
    check_programs(office, coded)
    check_answers(office, sets)


@pytest.mark.soak
def test_a_job_of_a_killed_server_follows_its_flag(office: SparkOffice, tmp_path: Path) -> None:
    """`test_job_kills.py` has this with servers that start faster."""
    lost = submit(office, PYSPARK, SLOW)
    kill_a_server(office, tmp_path, lost)
    wait_until(lambda: lost in ends(office), lambda: "", END_S)
    assert ends(office)[lost]["outcome"] == "failed"
    kept = submit(office, PYSPARK, SLOW, restart=True)
    kill_a_server(office, tmp_path, kept)
    clerk = Clerk(office, tmp_path, "local[2]", "--jobs", "1")
    try:
        assert clerk.process.wait(END_S) == 0, clerk.said()
    finally:
        clerk.gone()
    again = ends(office)[kept]
    assert (again["outcome"], again["attempts"], again["result"]) == ("finished", 2, "awake")


def kill_a_server(office: SparkOffice, folder: Path, number: int) -> None:
    """`kill -9` of one that is at work on a job."""
    clerk = Clerk(office, folder, "local[2]")
    try:
        wait_until(lambda: begun(office, number), clerk.said, END_S)
        clerk.kill()
    finally:
        clerk.gone()


def begun(office: SparkOffice, number: int) -> bool:
    """The job is in service, and its program has told of its progress."""
    jobs = office.qm.call("GET", f"/job-queues/{QUEUE}/jobs")["jobs"]
    found = [one for one in jobs if one["number"] == number]
    return bool(found and found[0]["progress"] and found[0]["progress"]["text"] == "asleep")


@pytest.mark.soak  # `test_jobs_of_all_kinds_are_serviced_on_one_machine` has them all
def test_jobs_of_all_kinds_are_serviced_on_a_cluster(
    office: SparkOffice, spark_cluster: Cluster, tmp_path: Path
) -> None:
    """The server's session leaves a core to programs."""
    sets, programs = 15, 10
    numbers = [six(office) for _ in range(sets)]
    counted = submit(office, SQL, b"SELECT count(*) AS n FROM queues.orders")
    refused = submit(office, SQL, b"DROP TABLE queues.orders")
    coded = [submit(office, PYSPARK, PROGRAM.encode()) for _ in range(programs)]
    options = ("--conf", "spark.cores.max=1", "--conf", "spark.driver.host=127.0.0.1")
    jobs = ("--jobs", str(2 + 6 * sets + programs))
    clerk = Clerk(office, tmp_path, spark_cluster.master, *options, *jobs)
    try:
        clerk.wait()
    finally:
        clerk.gone()
    for one in numbers:
        check_six(office, one)
    found = ends(office)
    assert json.loads(found[counted]["result"])["first"] == [{"n": ORDERS}]
    assert "DropTable" in found[refused]["result"]
    check_programs(office, coded)
    check_answers(office, sets)


@pytest.mark.spec("QMS Servicing/14")
def test_programs_of_others_are_refused(office: SparkOffice) -> None:
    """Decision 17: the queue manager gives a server no token for them."""
    from posthouse import qms
    from posthouse.model.errors import QmsError
    from posthouse.qms.sessions import SessionDoor

    with qms.on(office.qm) as server:
        queue = server.queue(QUEUE)
        server.create_server("S", queues=[queue])
        queue.remove("Q_CODE_USERS", "SUPERVISOR")
        job = queue.submit(b"import os", type=PYSPARK)
        door = SessionDoor(office.qm, "S", 5)
        door.attach_queue_server_to_queue(queue.id)
        door.service_queue_job(queue.id, [PYSPARK])
        with pytest.raises(QmsError, match="Q_CODE_USERS") as info:
            door.client_token(queue.id, job.number, code=True)
        assert info.value.completion == 0xD3
        assert door.client_token(queue.id, job.number).user == "administrator"
        queue.add("Q_CODE_USERS", ("EVERYONE", "group"))
        assert door.client_token(queue.id, job.number, code=True).token.startswith("pht_")
