"""`posthouse demo` in real processes, with a real kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from posthouse.api.types import BooksListJson
from posthouse.cli import main
from posthouse.cli.demo.http_orders import Posted
from posthouse.cli.demo.jobs import Serviced
from posthouse.cli.demo.pipeline import Piped
from posthouse.cli.demo.public_queue import Named
from posthouse.cli.demo.server import DemoServer
from posthouse.cli.demo.steps import SHOPS, Arrived, Report
from posthouse.model.errors import ServiceNotAvailable
from posthouse.runtime.home import lock_home

POSTED = Posted(5, 5, 5, True, 1)
NAMED = Named(r"BETA\claims", 2, 2, 2, True)
PIPED = Piped(100, 100, 1, [], {"nack-queue-purged": 5}, "lake", "customers")
SERVICED = Serviced(number=1, outcome="finished", orders=100, server="SPARK")
SPARK = {"spark": True, "piped": PIPED, "serviced": SERVICED}


def test_the_demonstration_loses_nothing_and_its_books_balance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert main.run(["demo", "--home", str(home), "--orders", "400", "--no-spark", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 200 <= report["acknowledged_before_kill"] < 400
    assert report["in_flight_at_kill"] >= 1
    assert report["kills"] >= 1
    assert report["in_order"]
    assert report["sound"]
    assert [each["orders"] for each in report["arrived"]] == [100] * len(SHOPS)
    assert report["shared_transactions"] == 2
    assert report["over_the_wire"] == report["delivered"] == 360
    assert report["posted"] | {"per_second": 0} == {
        "sent": 20,
        "delivered": 20,
        "received": 20,
        "in_order": True,
        "per_second": 0,
    }
    assert report["named"] == {
        "path": r"BETA\claims",
        "sent": 8,
        "delivered": 8,
        "received": 8,
        "in_order": True,
    }
    assert report["dead_letters"] == {"nack-receive-timeout": 3, "nack-queue-purged": 2}
    assert report["books"].keys() == report["addresses"].keys() == {"ALPHA", "BETA"}
    for name in ("alpha", "beta"):  # stopped, and the data is still there
        os.close(lock_home(home / name))
        assert (home / name / "store").is_dir()


def test_people_see_what_happened_and_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["demo", "--home", str(tmp_path), "--orders", "201", "--no-spark"]) == 0
    said = capsys.readouterr()
    assert "kill -9 of ALPHA" in said.err
    assert "sending" in said.err
    assert "north  51      " in said.out
    assert "http://127.0.0.1:" in said.out
    assert f"posthouse queue list --home {tmp_path / 'alpha'}" in said.out


def test_a_folder_with_something_in_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("data")
    assert main.run(["demo", "--home", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "data"


def test_who_stops_it_stops_its_servers(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "posthouse.cli.main",
        "demo",
        "--orders",
        "1000000",
        "--no-spark",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"BETA serves" in line:
                process.send_signal(signal.SIGTERM)
                break
        process.stderr.read()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_start_is_explained(tmp_path: Path) -> None:
    with DemoServer(tmp_path, "ALPHA") as server:
        taken = lock_home(server.home)
        server.launch()
        with pytest.raises(ServiceNotAvailable, match=r"ended with exit code 1.*in use"):
            server.ready()
        os.close(taken)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arrived": [Arrived("north", 100, 1, False)]},
        {"arrived": [Arrived("north", 99, 1, True)]},
        {"journaled": 99},
        {"in_flight_at_kill": 0},
        {"undone": False},
        {"dead_letters": {"nack-queue-purged": 4}},
        {"books": {"ALPHA": BooksListJson([], True), "BETA": BooksListJson([], False)}},
        {"books": {"ALPHA": BooksListJson([], True)}},
        {"delivered": 99},
        {"over_the_wire": 0, "delivered": 0},
        {"stopped_well": False},
        {"posted": None},
        {"posted": msgspec.structs.replace(POSTED, delivered=4)},
        {"posted": msgspec.structs.replace(POSTED, in_order=False)},
        {"named": None},
        {"named": msgspec.structs.replace(NAMED, received=1)},
        {"named": msgspec.structs.replace(NAMED, path="")},
        {"spark": True},
        SPARK | {"piped": msgspec.structs.replace(PIPED, archived=99)},
        SPARK | {"piped": msgspec.structs.replace(PIPED, orders=101)},
        SPARK | {"piped": msgspec.structs.replace(PIPED, amount=2)},
        SPARK | {"piped": msgspec.structs.replace(PIPED, reasons={})},
        SPARK | {"serviced": None},
        SPARK | {"serviced": SERVICED._replace(outcome="failed")},
        SPARK | {"serviced": SERVICED._replace(orders=99)},
    ],
)
def test_the_report_is_unsound_when_anything_is_missing(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    sound = {
        "spark": False,
        "arrived": [Arrived("north", 100, 1, True)],
        "journaled": 100,
        "in_flight_at_kill": 1,
        "undone": True,
        "over_the_wire": 100,
        "delivered": 100,
        "posted": POSTED,
        "named": NAMED,
        "dead_letters": {"nack-queue-purged": 5},
        "books": {name: BooksListJson([], True) for name in ("ALPHA", "BETA")},
        "stopped_well": True,
    }
    assert Report(tmp_path, 100, **sound).sound  # type: ignore[arg-type]
    assert Report(tmp_path, 100, **sound | SPARK).sound  # type: ignore[arg-type]
    assert not Report(tmp_path, 100, **sound | wrong).sound  # type: ignore[arg-type]
