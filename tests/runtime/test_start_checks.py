"""`config check` finds what `serve` refuses, in the same words."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.model.errors import QueueError
from posthouse.runtime.endpoints import standard_doors
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import NotStarted, Options, run
from posthouse.runtime.settings.file import read_settings
from posthouse.runtime.start_checks import start_faults
from tests.cli.conftest import Posthouse, posthouse  # noqa: F401

RUNTIME = Path(__file__).parents[2] / "src" / "posthouse"
ELSEWHERE = "192.0.2.1"  # of documentation: no machine has it
REFUSED = [
    '[admin]\ncertificate = "none.pem"\nprivate_key = "none.key"',
    '[https]\ncertificate = "none.pem"\nprivate_key = "none.key"',
    '[srmp]\nauthorities = "none.pem"',
    '[srmp]\nclient_certificate = "none.pem"\nclient_key = "none.key"',
    '[transactions]\npeer_authorities = "none.pem"',
    '[transactions]\nurl = "alpha"',
    f'[queue_manager]\nlisten = "{ELSEWHERE}"',
    f'[queue_manager]\nlisten = "{ELSEWHERE}"\n[binary]\nenabled = false',
    f'[queue_manager]\nlisten = "{ELSEWHERE}"\n[binary]\nenabled = false\n[http]\nenabled = false',
    f'[admin]\nlisten = "{ELSEWHERE}"\ninsecure = true',
    f'[ncp]\nlisten = "{ELSEWHERE}"',
    '[admin]\nmasks = ["read * CardNumber"]',
    '[admin]\nexplain_peers = ["alone"]',
    '[rpc]\nkeytab = "none.keytab"',
    '[log]\nfile = "file/posthouse.log"',
]


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """The server makes its process private; the tests behind it should not be."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.mark.parametrize("text", REFUSED)
def test_what_serve_refuses_is_found_before(
    posthouse: Posthouse,  # noqa: F811
    tmp_path: Path,
    text: str,
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "posthouse.toml").write_text(text)
    checked = posthouse("config", "check", "--home", tmp_path)
    assert checked.code == 2
    with pytest.raises((NotStarted, QueueError)) as refused:
        run(Options(tmp_path, name="ALPHA", ports=PortSet.EPHEMERAL), standard_doors)
    cause = str(refused.value).partition(": File exists")[0].rstrip(".")  # only trying tells it
    assert f"{tmp_path}/posthouse.toml: {cause}" in checked.err


def test_every_refusal_of_a_start_is_among_them() -> None:
    """Ports, the log and the ready file are what a start itself finds."""
    found = {
        str(path.relative_to(RUNTIME)): len(re.findall("raise NotStarted", text))
        for path in RUNTIME.rglob("*.py")
        if "raise NotStarted" in (text := path.read_text(encoding="utf-8"))
    }
    own = found.pop("runtime/serve.py")
    assert found.keys() == {"runtime/start_checks.py", "runtime/tls_contexts.py"}
    assert own == 3


def test_ports_in_use_are_not_looked_at(tmp_path: Path) -> None:
    """The queue manager that is to be restarted has them."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "posthouse.toml").write_text(f"[admin]\nport = {port}")
        settings = read_settings(tmp_path / "posthouse.toml")
        assert start_faults(settings, tmp_path) == []


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = read_settings(home / "posthouse.toml", must_exist=False)
    assert start_faults(settings, home) == []
    assert not home.exists()
