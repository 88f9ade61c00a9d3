"""Operations, failures, the audit log and what is wrong, in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import posthouse
from tests.console.houses import at, call, labels, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
MANY = 6_000  # messages: several steps of an operation
DEAD = "ALPHA\\system$;deadletter"
FAR = "DIRECT=TCP:127.0.0.1:9\\private$\\nowhere"


def died(house: House, name: str, count: int) -> str:
    """A queue whose messages became dead letters; its path."""
    path = made(house, name)
    for number in range(count):
        send(house, path, label=f"{name} {number}", journal=["negative"], delivery="recoverable")
    call(house, "POST", f"{at(path)}/purge")
    return path


@pytest.mark.visits("list_operations", "stop_operation", "resume_operation", "forget_operation")
def test_an_operation_is_stopped_goes_on_and_is_forgotten(browser: Browser, house: House) -> None:
    path, other = made(house, "long"), made(house, "long-target")
    with posthouse.connect(house.home) as manager:
        manager.queue(path).send_many([b"x"] * MANY)
    browser.open(page("messages", path))
    browser.click("#all")
    browser.click("button", f"Move all {MANY:,}")
    browser.write("#field-to", other)
    browser.click("dialog button.primary")
    browser.click("dialog button.primary", f"Move {MANY:,} messages")
    browser.click("dialog .answer button", "Stop")
    browser.one("dialog .notice.warn", "It was stopped. Under Operations it goes on.")
    browser.click("dialog button", "Close")
    left = call(house, "GET", at(path))["messages"]
    assert 0 < left < MANY
    browser.open("operations")
    browser.click_in("tr", "long-target", "Resume")
    browser.wait(lambda: not call(house, "GET", at(path))["messages"])
    assert call(house, "GET", at(other))["messages"] == MANY
    browser.click_in("tr", "long-target", "Forget")
    browser.wait(lambda: "long-target" not in browser.text)


@pytest.mark.visits("list_failures", "begin_operation")
def test_failures_are_grouped_and_returned(browser: Browser, house: House) -> None:
    path = died(house, "failing", 3)
    browser.open(page("failures"))
    browser.wait(lambda: DEAD in browser.one_text("#queue"))
    browser.write("#queue", DEAD)
    browser.one("td .badge", "nack-queue-purged")
    browser.write("td input", "ask the shop <b>")
    browser.driver.refresh()
    browser.one("td .badge", "nack-queue-purged")
    assert browser.one("td input").get_attribute("value") == "ask the shop <b>"
    assert browser.faults() == []
    browser.click("td[data-column=acts] button", "Return")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "would be taken.")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "done.")
    assert labels(house, path) == ["failing 0", "failing 1", "failing 2"]


@pytest.mark.visits("show_status", "show_history", "list_queues")
def test_the_overview_shows_first_what_is_wrong(browser: Browser, house: House) -> None:
    died(house, "gone", 1)
    call(house, "POST", f"{at(FAR)}/messages", {"label": "far", "delivery": "recoverable"})
    browser.open("overview")
    browser.one("#health li", "dead letter")
    browser.one("#health li a", "Show the failures")
    assert "posthouse failures" not in browser.one_text("#health")
    browser.wait(lambda: "nowhere cannot connect" in browser.one_text("#health"))
    browser.one("section", "Dead letters by reason")
    browser.one("td", "there is no listener on 127.0.0.1 port 9")
    browser.wait(lambda: len(browser.all("svg.chart")) >= 4)
    browser.write("[aria-label='Time of the charts']", "day")
    browser.wait(lambda: "the last day" in browser.driver.page_source)
    assert browser.faults() == []
