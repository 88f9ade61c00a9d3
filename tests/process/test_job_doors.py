"""The document's own steps again, over a real server: client sessions, NCP by TCP and UDP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import posthouse
from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.errors import QueueError
from posthouse.qms import Door
from posthouse.qms.sessions import SessionDoor
from tests.process.ncp_house import NcpHouse
from tests.process.serving import Serving
from tests.qms import walk

DOORS = ("session", "tcp", "udp")
SETTINGS = """
[ncp]
clear_text_logins = true
"""  # NWChangeObjectPassword carries passwords as they are


@pytest.fixture(params=DOORS)
def enter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[walk.Enter]:
    """Stations of one server over one door."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "posthouse.toml").write_text(SETTINGS, encoding="ascii")
    with ExitStack() as running:
        serving = running.enter_context(Serving(tmp_path, "--name", "ALPHA"))
        ready = serving.ready()
        manager = running.enter_context(posthouse.connect(serving.home))
        if request.param == "session":
            yield lambda name, type: session(manager, name, type)
            return
        administrator = SessionDoor(manager)
        administrator.change_object_password("SUPERVISOR", 1, "", walk.PASSWORD)
        host, _, port = ready["endpoints"]["ncp"].rpartition(":")

        def login(name: str, type: int) -> Door:
            door = NcpCalls.connect(host, int(port), transport=request.param)
            running.callback(door.close)
            door.login(name, type, walk.PASSWORD)
            return door

        yield login


def session(manager: posthouse.QueueManagerClient, name: str, type: int) -> Door:
    if name == "SUPERVISOR":
        return SessionDoor(manager)
    return SessionDoor(manager, name, type, walk.PASSWORD)


def test_the_steps_of_the_document_work_over_every_door(enter: Callable[[str, int], Door]) -> None:
    for heading in walk.HEADINGS:
        heading(enter)


def test_refused_logins_over_ncp_are_in_the_audit_log(tmp_path: Path) -> None:
    """Also those that are turned away without a look at the password."""
    with ExitStack() as running:
        house = NcpHouse(tmp_path, running)
        calls = running.enter_context(closing(house.client()))
        for _ in range(7):
            with pytest.raises(QueueError):
                calls.login("ALICE", 1, "wrong")
        house.serving.stop()  # writes those that were only counted
    lines = (house.home / "audit/audit-sign-ins.log").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [one["object"].get("door") for one in entries] == ["ncp"] * 5 + [None]
    assert sum(one["result"].get("more", 1) for one in entries) == 7
    assert {one["error"] for one in entries[:5]} == {"wrong password"}
    assert {one["user"] for one in entries[:5]} == {"ALICE"}
