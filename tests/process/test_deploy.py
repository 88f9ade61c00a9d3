"""The files of deploy/: systemd and our own program accept them as they are."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from posthouse.cli import main
from posthouse.cli.verbs import commands
from posthouse.runtime.ports import STANDARD_PORTS, PortSet, port_of
from tests.process.image_file import DEPLOY, ROOT, instructions
from tests.process.serving import Serving

SERVE_OPTIONS = {
    option
    for parameter in dict(commands(main.program(), "posthouse"))["posthouse serve"].params
    for option in parameter.opts
}


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


@pytest.mark.peer("systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """The program of the unit is not installed here, so a program that is stands in for it."""
    text = (DEPLOY / "posthouse.service").read_text(encoding="utf-8")
    unit = tmp_path / "posthouse.service"
    unit.write_text(text.replace("/opt/posthouse/bin/posthouse", sys.executable))
    done = run("systemd-analyze", "verify", unit)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.peer("systemd")
def test_the_unit_leaves_the_service_little_to_do_harm_with() -> None:
    done = run("systemd-analyze", "security", "--offline=true", DEPLOY / "posthouse.service")
    (level,) = re.findall(r"exposure level for posthouse.service: ([\d.]+)", done.stdout)
    assert float(level) < 2.0


def test_the_unit_needs_only_programs_that_every_system_has() -> None:
    """`/bin/kill` is in a package of its own (procps), which small systems leave out."""
    text = (DEPLOY / "posthouse.service").read_text(encoding="utf-8")
    programs = set(re.findall(r"^Exec\w+=(\S+)", text, re.MULTILINE))
    assert programs == {"/opt/posthouse/bin/posthouse", "/bin/sh"}


def test_the_unit_starts_the_program_with_options_that_it_has() -> None:
    text = (DEPLOY / "posthouse.service").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=\S+/posthouse serve (.+)$", text, re.MULTILINE)
    assert {word for word in line.split() if word.startswith("--")} <= SERVE_OPTIONS


@pytest.mark.peer("systemd")
def test_systemd_makes_the_account_and_the_folder_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "posthouse"
    folder.mkdir(parents=True)
    shutil.copy(DEPLOY / "posthouse.toml", folder)
    done = run("systemd-sysusers", f"--root={tmp_path}", DEPLOY / "posthouse.sysusers")
    assert done.returncode == 0, done.stderr
    accounts = (tmp_path / "etc" / "passwd").read_text()
    (name, _, _, group, *rest) = accounts.strip().split(":")
    assert [name, *rest[1:]] == ["posthouse", "/var/lib/posthouse", "/usr/sbin/nologin"]
    done = run("systemd-tmpfiles", f"--root={tmp_path}", "--create", DEPLOY / "posthouse.tmpfiles")
    assert done.returncode == 0, done.stderr
    found = {path.name: path.stat() for path in (folder, folder / "posthouse.toml")}
    assert {name: oct(stat.S_IMODE(each.st_mode)) for name, each in found.items()} == {
        "posthouse": "0o750",
        "posthouse.toml": "0o640",
    }
    assert {each.st_gid for each in found.values()} == {int(group)}


def test_a_queue_manager_starts_with_the_example_of_settings(tmp_path: Path) -> None:
    options = ("--config", str(DEPLOY / "posthouse.toml"), "--listen", "127.0.0.1")
    with Serving(tmp_path, *options, "--name", "ALPHA") as server:
        assert server.ready()["name"] == "ALPHA"
    assert " info started name=ALPHA " in server.errors.read_text()  # its log has no file


def test_the_image_is_made_of_what_is_there() -> None:
    copied = [word for line in instructions("COPY") for word in line[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    (exposed,) = instructions("EXPOSE")
    known = {port_of(name, PortSet.USER) for name in STANDARD_PORTS}
    assert {int(port.partition("/")[0]) for port in exposed} <= known
    (entry,) = instructions("ENTRYPOINT")
    words = re.findall(r'"([^"]+)"', " ".join(entry))
    assert words[:2] == ["posthouse", "serve"]
    assert {word for word in words if word.startswith("--")} <= SERVE_OPTIONS
    assert words[-1] == instructions("COPY")[-1][-1]  # the settings are where it looks for them


def test_both_queue_managers_of_the_compose_file_keep_their_homes() -> None:
    composed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    (home,) = instructions("VOLUME")
    names = set()
    for name, service in composed["services"].items():
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        option, computer = service["command"]
        assert option in SERVE_OPTIONS
        assert computer == name.upper() == service["hostname"].upper()
        (volume,) = service["volumes"]
        source, _, target = volume.partition(":")
        assert source in composed["volumes"]
        assert target == home[0]
        names.add(source)
    assert len(names) == 2
