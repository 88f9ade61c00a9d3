"""`posthouse doctor`: what a person sees, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from posthouse.cli import doctor, main
from posthouse.model.errors import InvalidParameter, ServiceNotAvailable
from posthouse.runtime.home import Home
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=3000)


def run(*arguments: str) -> int:
    return main.run(["doctor", *arguments])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rig = Rig(LogStore(RealDisk(tmp_path / "home" / "store"), SETTINGS))
    for _ in range(40):
        rig.send()
        rig.keep()
        rig.tidy()
    rig.store.close()
    return tmp_path / "home"


def damage(home: Path) -> Path:
    """One byte of the first message's packet."""
    first = min((home / "store").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[data.index(b"packet ")] ^= 1
    first.write_bytes(data)
    return first


def test_a_healthy_store_gives_exit_code_0(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--store", str(home)) == 0
    out = capsys.readouterr().out
    assert "The store is healthy." in out
    assert "40 messages" in out
    assert run("--store", str(home / "store")) == 0


def test_a_damaged_store_gives_exit_code_1_with_file_and_offset(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = damage(home)
    before = {path: path.read_bytes() for path in (home / "store").iterdir()}
    assert run("--store", str(home)) == 1
    out = capsys.readouterr().out
    assert f"{first.name}, offset " in out
    assert "wrong checksum" in out
    assert f"--accept-loss {first.name}" in out
    assert run("--store", str(home), "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["healthy"]
    assert report["problems"][0]["file"] == first.name
    assert {path: path.read_bytes() for path in (home / "store").iterdir()} == before


def test_good_messages_are_exported(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(home)
    out = tmp_path / "saved"
    assert run("--store", str(home), "--export", str(out)) == 0
    assert "39 messages" in capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "messages.jsonl").read_text().splitlines()]
    assert len(lines) == 39
    for line in lines:
        assert (out / line["file"]).read_bytes() == packet_of(line["number"])
    with pytest.raises(InvalidParameter, match="not empty"):
        typer.main.get_command(app_of()).main(
            ["--store", str(home), "--export", str(out)], standalone_mode=False
        )
    assert run("--store", str(home), "--export", str(tmp_path / "json"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 39


def app_of() -> typer.Typer:
    app = typer.Typer()
    doctor.register(app)
    return app


def test_a_loss_is_accepted_by_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = damage(home)
    assert run("--store", str(home), "--accept-loss", first.name) == 0
    out = capsys.readouterr().out
    assert "The store starts again." in out
    assert f"kept as {first.name}.damaged" in out
    assert run("--store", str(home)) == 0
    rig = Rig(LogStore(RealDisk(home / "store"), SETTINGS))
    assert len(rig.state.table) == 39
    rig.check_packets()


def test_a_healthy_segment_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = min((home / "store").glob("*.log"))
    assert run("--store", str(home), "--accept-loss", first.name) == 1
    assert "Nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["posthouse.toml", "12345678901.log", "²"])
def test_only_segments_can_be_given_up(home: Path, name: str) -> None:
    with pytest.raises(InvalidParameter, match="is not a segment"):
        doctor.doctor(home, accept=name)


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="holds no store"):
        doctor.doctor(tmp_path)


def test_a_home_will_do_and_is_the_usual_one_where_none_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--home", str(home)) == 0
    monkeypatch.setenv("POSTHOUSE_HOME", str(home))
    assert run() == 0
    assert capsys.readouterr().out.count("The store is healthy.") == 2
    assert run("--home", str(home), "--store", str(home)) == 2


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("options", [(), ("--export",)])
def test_a_home_in_use_is_not_checked(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    store: bool,
    options: tuple[str, ...],
) -> None:
    """What it writes meanwhile, and its express messages, would be missing in the report."""
    place = ("--store", str(home / "store")) if store else ("--home", str(home))
    words = (*place, *options, *([str(tmp_path / "out")] if options else []))
    running = Home(home)
    try:
        assert main.run(["doctor", *words]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "is in use by another queue manager" in said.err
        assert f"posthouse backup DIR --home {home}" in said.err
        assert main.run(["doctor", *words, "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["healthy"], told["in_use"]) == (None, True)
    finally:
        running.close()
    assert not (tmp_path / "out").exists()
    assert main.run(["doctor", *words]) == 0


def test_nothing_is_given_up_under_a_running_queue_manager(home: Path) -> None:
    first = damage(home)
    before = first.read_bytes()
    running = Home(home)
    try:
        for place in (home, home / "store"):
            with pytest.raises(ServiceNotAvailable, match="in use"):
                doctor.doctor(place, accept=first.name)
    finally:
        running.close()
    assert first.read_bytes() == before
