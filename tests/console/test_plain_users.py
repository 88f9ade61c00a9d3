"""What the console shows to users who are not administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import asked_routes
from tests.console.houses import at, call, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")

ONLY = "Only administrators see"
TEXTS = {  # of each page: what it says of what it shows
    "overview": f"{ONLY} all queues, the outgoing ones",
    "queues": f"{ONLY} all queues, and the outgoing ones",
    "messages": "Choose a queue",
    "tail": "Live tail",
    "life": "Life of a message",
    "failures": "No dead-letter or error queue that you may look at has a message.",
    "operations": "Operations",
    "transfer": f"{ONLY} outgoing queues",
    "transactions": f"{ONLY} transactions",
    "groups": "No group reads a queue that you may look at.",
    "jobs": "Job queues",
    "directory": f"{ONLY} the lists of the directory",
    "query": "Query",
    "store": "Books and store",
}

LOADED = {  # what comes with the answers, where the text is there before them
    "overview": ("#main td", "seen-by-bob"),
    "queues": ("#main td", "seen-by-bob"),
    "transfer": (".badge", "online"),
    "directory": ("dt", "Source"),
}


@pytest.fixture(scope="module")
def queue(house: House) -> str:
    """A queue that the plain user may look at, beside one that has a group and hides it."""
    call(house, "POST", "/users", {"name": "bob", "password": "bobs own words"})
    path, hidden = made(house, "seen-by-bob"), made(house, "hidden-from-bob")
    send(house, path, label="for bob")
    call(house, "POST", f"{at(path)}/access/grant", {"who": "bob", "rights": ["full"]})
    call(house, "POST", f"{at(hidden)}/access/deny", {"who": "bob", "rights": ["full"]})
    return path


def sign_in(browser: Browser, house: House, way: str, queue: str) -> None:
    if way == "password":
        browser.click("#sign-out")
        browser.click("label[for=by-password]")
        browser.write("#user", "bob")
        browser.write("#password", "bobs own words")
        browser.click("button.primary")
    else:
        of = {"user": "bob"} if way == "token" else {"queues": [queue]}
        browser.sign_in(call(house, "POST", "/tokens", {"role": "operate", **of})["token"])
    browser.one(".who", "operate")
    browser.complaints()


@pytest.mark.parametrize("way", ["password", "token", "limited token"])
def test_pages_show_what_a_plain_user_may_see(
    browser: Browser, house: House, queue: str, way: str
) -> None:
    sign_in(browser, house, way, queue)
    limited = way == "limited token"  # which has no job queues
    browser.expected = ("/job-queues",) if limited else ()
    for name, text in TEXTS.items():
        if limited and name == "jobs":
            continue
        browser.open(page(name))
        browser.sees(text)
        browser.one(*LOADED.get(name, ("main h1", "")))
        assert not browser.all(".notice.bad"), (name, browser.text)
    browser.open("queues")
    browser.one("#main td", "seen-by-bob")
    assert "hidden-from-bob" not in browser.text
    assert browser.faults() == []
    browser.open(page("queues", queue))
    browser.one("dd", "1")
    assert not browser.all(".notice.bad")
    assert browser.unexpected() == []  # nothing was asked that is refused


def test_what_is_refused_is_not_asked_again(browser: Browser, house: House, queue: str) -> None:
    sign_in(browser, house, "password", queue)
    browser.expected = ("/api/v1/queues/", "/api/v1/status")
    browser.open(page("queues", ".\\private$\\hidden-from-bob"))
    browser.one("#trouble .notice.bad", "")
    assert "Asked again" not in browser.text
    asked_routes(browser.driver)
    browser.script("dispatchEvent(new Event('online')); fetch('/api/v1/status')")
    asked: set[str] = set()

    def is_asked() -> bool:
        asked.update(asked_routes(browser.driver))
        return "show_status" in asked

    browser.wait(is_asked)
    assert asked == {"show_status"}  # by the test itself
    browser.keys("r")
    browser.wait(lambda: "show_queue" in asked_routes(browser.driver))
