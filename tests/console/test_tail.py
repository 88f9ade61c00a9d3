"""The live tail in the console: what arrives is shown, as text, and stays in its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.houses import HOSTILE, labels, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")


@pytest.mark.visits("tail_queue")
def test_messages_appear_as_they_arrive(browser: Browser, house: House) -> None:
    path = made(house, "tailed")
    send(house, path, label="before")
    browser.open(page("tail", path))
    browser.one(".heading [role=status]", "0 arrived")
    send(house, path, label=HOSTILE)
    send(house, path, label="last")

    def shown() -> list[str]:
        return [one.text for one in browser.all("td[data-column=label]")]

    browser.wait(lambda: shown() == ["last", HOSTILE])
    assert browser.script("return window.hit") is None
    browser.click("#pause")
    browser.wait(lambda: browser.one("#pause").text == "Go on")
    assert browser.faults() == []
    for width in (375, 1920):
        browser.size(width)
        assert browser.overflow() <= 0
    assert labels(house, path) == ["before", HOSTILE, "last"]
    browser.click("#pause")
    browser.wait(lambda: browser.one("#pause").text == "Pause")

    def goes_on() -> bool:
        send(house, path, label="again")
        return "again" in shown()

    browser.wait(goes_on)
