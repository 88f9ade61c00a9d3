"""The shell of the console in a real browser: sign-in, navigation, keyboard, widths, colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import posthouse
from tests.console.houses import CONSOLE
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
PAGES = sorted(
    re.findall(r"^  (\w+),$", (CONSOLE / "pages" / "index.js").read_text(), re.MULTILINE)
)
WIDTHS = (375, 1024, 1920)


@pytest.mark.visits("show_status", "list_queues", "show_history")
def test_a_user_signs_in_looks_and_signs_out(browser: Browser, house: House) -> None:
    browser.one(".health")
    assert browser.driver.title == "Overview · ALPHA"
    browser.driver.refresh()  # the session is still there
    browser.one(".health")
    browser.click("#sign-out")
    browser.one("form.sign-in")
    assert "page-key" not in browser.script("return JSON.stringify(localStorage)")
    browser.driver.get(house.url)  # leads to the console, which has no session any longer
    browser.one("form.sign-in")


def test_sign_ins_that_fail_are_explained(browser: Browser, house: House) -> None:
    browser.expected = ("/console/session",)
    browser.click("#sign-out")
    browser.write("#token", "pht_nonsense")
    browser.click("button.primary")
    browser.one(".notice.bad", "Ask an administrator for a new one.")
    with posthouse.connect(house.home) as manager:
        manager.call("POST", "/users", {"name": "carol", "password": "correct horse"})
    browser.click("label[for=by-password]")
    browser.write("#user", "carol")
    browser.write("#password", "wrong horse")
    browser.click("button.primary")
    browser.one(".notice.bad", "The user name or the password is wrong.")
    browser.write("#password", "correct horse")
    browser.click("button.primary")
    browser.one(".who", "operate")
    with posthouse.connect(house.home) as manager:
        manager.call("DELETE", "/users/carol")
    browser.expected = ("/console/session", "/api/v1/")
    browser.keys("r")
    browser.one("form.sign-in .notice.bad", "session has ended")


def test_scripts_cannot_read_the_cookie(browser: Browser) -> None:
    assert browser.script("return document.cookie") == ""
    assert [one["httpOnly"] for one in browser.driver.get_cookies()] == [True]


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_three_widths_and_have_no_serious_fault(browser: Browser, page: str) -> None:
    for scheme in ("light", "dark"):
        browser.colours(scheme)
        browser.open(page)
        browser.one("main h1")
        browser.one("main table, main .card, main .empty, main form")
        for width in WIDTHS:
            browser.size(width)
            assert browser.overflow() <= 0, width
            assert browser.faults() == [], (scheme, width)


def test_the_menu_of_a_phone(browser: Browser) -> None:
    browser.size(375)
    assert not browser.one("header.top").find_element("xpath", "//nav").is_displayed()
    browser.click(".menu-button")
    browser.click("nav a", "Queues")
    browser.one("main h1", "Queues")
    assert browser.faults() == []


def test_the_keyboard_reaches_everything(browser: Browser) -> None:
    browser.open("overview")
    browser.one(".health")
    browser.keys("g", "q")
    browser.one("main h1", "Queues")
    browser.keys("/")
    browser.wait(lambda: browser.script("return 'filter' in document.activeElement.dataset"))
    browser.keys("g", "o")  # in a field these are letters
    assert browser.script("return document.activeElement.value") == "go"
    browser.script("document.activeElement.blur()")
    browser.keys("?")
    browser.one("dialog h2", "Keyboard")
    assert browser.faults() == []
    browser.keys("\ue00c")  # Escape
    browser.wait(lambda: not browser.all("dialog"))
    browser.script("document.querySelector('.skip').focus()")
    browser.keys("\ue007")  # Enter
    assert browser.script("return document.activeElement.id") == "main"


def test_shortcuts_can_be_turned_off(browser: Browser) -> None:
    browser.keys("?")
    browser.click("#shortcuts")
    browser.keys("\ue00c")
    browser.wait(lambda: not browser.all("dialog"))
    browser.keys("?")
    assert not browser.all("dialog")


def test_the_theme_is_chosen_and_kept(browser: Browser) -> None:
    browser.click("button[aria-label='Change colours']")
    browser.click("button[aria-label='Change colours']")
    browser.driver.refresh()
    browser.one("nav")
    assert browser.script("return document.documentElement.dataset.theme") == "dark"
    colour = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(14, 19, 24)"


def test_a_server_that_does_not_answer_is_shown_and_asked_again(browser: Browser) -> None:
    browser.expected = ("ERR_INTERNET_DISCONNECTED",)
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    command = "Network.emulateNetworkConditions"
    browser.driver.execute_cdp_cmd(command, {"offline": True, **network})
    browser.keys("r")
    browser.one("#trouble", "The queue manager does not answer")
    browser.driver.execute_cdp_cmd(command, {"offline": False, **network})
    browser.wait(lambda: not browser.one_text("#trouble"))
