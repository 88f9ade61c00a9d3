"""Answers that are lost on their way: what was begun or sent is followed, and not done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.houses import call, labels, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
LOSE = """
const [method, path, skipped] = arguments;
const whole = window.fetch;
let seen = 0;
window.lost = 0;
window.fetch = async (target, options) => {
  const answer = await whole(target, options);
  if (options.method !== method || !target.includes(path) || seen++ !== skipped) return answer;
  window.lost += 1;
  throw new TypeError("the connection broke");
};
"""


def lose(browser: Browser, method: str, path: str, skipped: int = 0) -> None:
    """The server does it, and the page does not get the answer: once, after some that it gets."""
    browser.script(LOSE, method, path, skipped)


def lost(browser: Browser) -> int:
    return int(browser.script("return window.lost"))


@pytest.mark.parametrize("path", ["/operations", "/operations/"], ids=["begin", "follow"])
@pytest.mark.visits("begin_operation")
def test_an_operation_is_begun_once(browser: Browser, house: House, path: str) -> None:
    method = "GET" if path.endswith("/") else "POST"
    name = f"lost-{method.lower()}"
    queue, other = made(house, name), made(house, f"{name}-copies")
    for number in range(3):
        send(house, queue, label=f"{number}")
    before = len(call(house, "GET", "/operations")["operations"])
    browser.open(page("messages", queue))
    browser.one("td[data-column=label]")
    browser.click("th.mark input")
    browser.click("button", "Copy")
    browser.write("#field-to", other)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "3 messages would be taken.")
    lose(browser, method, path)
    browser.click("dialog button.primary", "Copy 3 messages")
    browser.wait(lambda: lost(browser) == 1)
    if method == "POST":
        browser.one("dialog .notice.bad", "not done twice")
        browser.click("dialog button.primary", "Copy 3 messages")
    browser.one("dialog .notice.ok", "3 messages done.")
    assert labels(house, other) == ["0", "1", "2"]
    assert len(call(house, "GET", "/operations")["operations"]) == before + 1


@pytest.mark.visits("send_message")
def test_an_import_goes_on_with_the_line_that_was_not_acknowledged(
    browser: Browser, house: House, tmp_path: Path
) -> None:
    queue = made(house, "lost-import")
    file = tmp_path / "messages.jsonl"
    file.write_text("".join(json.dumps({"label": f"{n}", "body": ""}) + "\n" for n in range(4)))
    browser.open(page("messages", queue))
    browser.click("button", "Import")
    browser.one("#import-file").send_keys(str(file))
    lose(browser, "POST", "/messages", 2)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "Line 3: the queue manager does not answer; 2 messages sent")
    browser.one("dialog .notice.bad", "goes on with this line")
    assert labels(house, queue) == ["0", "1", "2"]  # the third came, its answer did not
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "4 messages sent.")
    assert labels(house, queue) == ["0", "1", "2", "3"]


@pytest.mark.visits("send_message")
def test_a_message_is_sent_once_and_an_edited_one_is_another(
    browser: Browser, house: House
) -> None:
    queue = made(house, "lost-send")
    browser.open(page("messages", queue))
    browser.click("button", "Send")
    browser.write("#field-label", "by hand")
    lose(browser, "POST", "/messages")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "what was done already is not done twice")
    browser.click("dialog button.primary")
    browser.one(".toast", "Sent as")
    assert labels(house, queue) == ["by hand"]
    browser.click("button", "Send")
    browser.write("#field-label", "second")
    lose(browser, "POST", "/messages")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-label", "edited")
    browser.click("dialog button.primary")
    browser.wait(lambda: labels(house, queue) == ["by hand", "second", "edited"])


def test_other_acts_are_looked_at_before_they_are_repeated(browser: Browser, house: House) -> None:
    browser.open("queues")
    browser.click("#create")
    browser.write("#field-path", ".\\private$\\lost-queue")
    lose(browser, "POST", "/queues")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "It may have been done all the same")
