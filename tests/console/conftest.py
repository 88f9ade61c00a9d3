"""One queue manager and one browser for all tests of a worker; each test has its own view."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

import posthouse
from posthouse.protocols.handlers.dispatch import match
from tests.support.browser import Browser, started

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

SETTINGS = '[queue_manager]\nname = "ALPHA"\n[rpc]\nenabled = false\n[ncp]\nenabled = false\n'


class House(NamedTuple):
    """A queue manager in a process of its own."""

    home: Path
    url: str
    token: str
    http: str = ""  # where other machines post messages


@contextmanager
def serving(home: Path) -> Iterator[tuple[House, subprocess.Popen[bytes]]]:
    """A queue manager on a home, which is made where there is none."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "posthouse.toml").write_text(SETTINGS)
    words = ("serve", "--home", str(home), "--ports", "ephemeral", "--json")
    server = subprocess.Popen([sys.executable, "-m", "posthouse", *words], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())  # once every listener accepts connections
        url = f"http://{ready['endpoints']['admin']}"
        with posthouse.connect(home) as manager:
            token = manager.call("POST", "/tokens", {"role": "administer"})["token"]
        yield House(home, url, token, ready["endpoints"]["http"]), server
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(tmp_path_factory.mktemp("console") / "home") as (house, _):
        yield house


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    with started(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def browser(request: pytest.FixtureRequest, house: House, driver: WebDriver) -> Iterator[Browser]:
    """A browser that is signed in. The routes that the test names must be asked by its pages."""
    view = Browser(driver, house.url)
    view.size(1280)
    view.colours("light")
    view.sign_in(house.token)
    driver.get_log("performance")
    view.complaints()
    yield view
    assert view.unexpected() == []
    visited = asked_routes(driver)
    for mark in request.node.iter_markers("visits"):
        assert set(mark.args) <= visited, f"the pages asked {sorted(visited)}"


def asked_routes(driver: WebDriver) -> set[str]:
    """The names of the routes that the pages have asked since the last look."""
    found = set()
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            request = event["params"]["request"]
            path = urlsplit(request["url"]).path
            if path.startswith("/api/v1/"):
                found.add(match(request["method"], path).route.name)
    return found
