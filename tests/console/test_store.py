"""Books, damaged records, backups and the log in the console."""

from __future__ import annotations

import json
import signal
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import posthouse
from tests.console.conftest import House, asked_routes, serving
from tests.console.houses import HOSTILE, at, call, made, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.peer("chromium", "axe-core")
HIT = b"this one is hit"


@pytest.mark.visits("show_books", "list_damage", "make_backup")
def test_books_and_a_backup(browser: Browser, house: House, tmp_path: Path) -> None:
    path = made(house, "booked")
    for _ in range(3):
        send(house, path, label="x")
    call(house, "POST", f"{at(path)}/purge")
    browser.open("store")
    browser.one("h2", "Books: they balance")
    row = browser.one("tr", "booked").text.split()
    assert row == ["booked", "3", "0", "0", "0", "0", "3", "0", "0", "0", "yes"]
    browser.sees("No record of a message is damaged.")
    browser.click("[data-focus=backup]")
    browser.expected = ("/api/v1/backup",)
    browser.write("#field-directory", "not/from/the/root")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-directory", str(tmp_path / "copy"))
    browser.click("dialog button.primary")
    browser.one("#backup-made", str(tmp_path / "copy"))
    assert list((tmp_path / "copy").rglob("*.log"))


@pytest.mark.visits("accept_damage")
def test_a_damaged_record_is_shown_and_given_up(driver: WebDriver, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as (house, server):
        path = made(house, "orders")
        for body in (b"first", HIT, b"last"):
            send(house, path, body=b64encode(body).decode(), delivery="recoverable")
        server.send_signal(signal.SIGKILL)
        server.wait()
    (segment,) = (home / "store").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[data.index(HIT)] ^= 1
    segment.write_bytes(data)
    with serving(home) as (house, _):
        browser = Browser(driver, house.url)
        browser.sign_in(house.token)
        browser.open("overview")
        browser.one("#health", "1 damaged record")
        asked_routes(driver)
        browser.open("store")
        browser.click("button", "Give up")
        browser.one("dialog", "cannot be read")
        assert browser.faults() == []
        assert call(house, "GET", "/status")["damaged"] == 1
        browser.click("dialog button.danger")
        browser.sees("No record of a message is damaged.")
        assert "accept_damage" in asked_routes(driver)
        assert call(house, "GET", "/status")["damaged"] == 0
        assert call(house, "GET", at(path))["messages"] == 2


@pytest.mark.visits("tail_log")
def test_the_log_is_shown_as_it_is_written(browser: Browser, house: House) -> None:
    browser.open("log")
    browser.one("td[data-column=event]", "started")
    assert browser.faults() == []
    path = made(house, "logged", label=HOSTILE[:124])
    browser.one("td[data-column=text]", "logged")
    browser.write("main [data-filter]", "queue_created logged")
    browser.wait(lambda: len(browser.all("td[data-column=event]")) == 1)
    browser.click("#pause")
    browser.wait(lambda: browser.one("#pause").text == "Go on")
    with pytest.raises(posthouse.QueueError):
        posthouse.connect(url=house.url, token=f"pht_{'0' * 16}_{'0' * 43}").call("GET", "/status")
    browser.write("main [data-filter]", "")
    browser.write("select[aria-label=Level]", "warning")
    browser.one("td[data-column=event]", "login_refused")
    browser.wait(lambda: "started" not in browser.one_text("tbody"))
    assert browser.script("return window.hit") is None
    for width in (375, 1920):
        browser.size(width)
        assert browser.overflow() <= 0
    call(house, "DELETE", at(path))


def test_the_log_is_for_administrators(house: House, driver: WebDriver) -> None:
    token = call(house, "POST", "/tokens", {"role": "operate"})["token"]
    browser = Browser(driver, house.url)
    browser.sign_in(token)
    links = [one.get_attribute("data-page") for one in browser.all("nav a")]
    assert "log" not in links
    assert "store" in links
    browser.open("log")
    browser.one("main h1", "Overview")
    assert json.loads(browser.script("return JSON.stringify(document.title)")).startswith("Over")
