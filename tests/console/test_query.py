"""Statements of SQL in the console: rows, bars, what is refused, and the end of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.houses import HOSTILE, call, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")


@pytest.mark.visits("run_query")
def test_a_statement_is_shown_as_rows_and_bars(browser: Browser, house: House) -> None:
    path = made(house, "asked")
    for label in (HOSTILE, HOSTILE, "plain"):
        send(house, path, label=label)
    browser.open(page("query"))
    browser.write("#statement", "SELECT label, count(*) AS n FROM queues.asked GROUP BY label")
    browser.click("#run")
    browser.wait(lambda: len(browser.all("#answer tbody tr")) == 2)
    assert sorted(one.text for one in browser.all("#answer td.number")) == ["1", "2"]
    assert HOSTILE in [one.text for one in browser.all("#answer td")]
    assert len(browser.all("#answer svg rect")) == 2
    assert browser.script("return window.hit") is None
    assert browser.faults() == []
    for width in (375, 1920):
        browser.size(width)
        assert browser.overflow() <= 0
    browser.click("#tables")
    browser.wait(lambda: "asked" in [one.text for one in browser.all("#answer td")])
    statement = browser.script("return document.querySelector('#statement').value")
    assert statement.startswith("SELECT label")  # it is kept
    browser.expected = ("/sql",)
    browser.write("#statement", "SELECT * FROM read_text('/etc/passwd')")
    browser.click("#run")
    browser.one("#answer .notice.bad")
    browser.write("#statement", "SELECT get_json_object(label, '$.a') AS a FROM queues.asked")
    browser.click("#run")
    browser.one("#answer .notice.bad", "only Spark has the function 'get_json_object'")
    browser.one("#answer .notice.bad p", "Write it in another way, or let Spark answer it")


def test_the_role_look_has_no_queries(browser: Browser, house: House) -> None:
    browser.sign_in(call(house, "POST", "/tokens", {"role": "look"})["token"])
    browser.open(page("messages"))
    browser.one("main h1")
    assert not [one for one in browser.all("nav a") if one.text == "Query"]
