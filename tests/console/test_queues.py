"""Queues in the console: the tree, one queue, and every act on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.houses import at, call, made, page
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
FAR = "DIRECT=TCP:127.0.0.1:9\\private$\\far"


def names(browser: Browser) -> list[str]:
    return [one.text.split("\n")[0] for one in browser.all("td[data-column=name]")]


@pytest.mark.visits("list_queues")
def test_the_tree_is_filtered_sorted_and_has_columns(browser: Browser, house: House) -> None:
    for name, count in (("tree-b", 2), ("tree-a", 1), ("tree-c", 3)):
        path = made(house, name, label=f"label of {name}")
        for _ in range(count):
            call(house, "POST", f"{at(path)}/messages", {"label": "x"})
    browser.open("queues")
    browser.write("[data-filter]", "tree-")
    own = ["tree-a", "tree-b", "tree-c"]
    journals = [";journal"] * 3
    browser.wait(lambda: sorted(names(browser)) == sorted(own + journals))
    assert names(browser) == ["tree-a", ";journal", "tree-b", ";journal", "tree-c", ";journal"]
    browser.click("#system")
    browser.wait(lambda: names(browser) == own)
    browser.click("button.sort", "Messages")
    browser.click("button.sort", "Messages")
    browser.wait(lambda: names(browser) == own[::-1])
    browser.click("details.menu summary")
    browser.click(".menu-items label", "Label")
    browser.wait(lambda: not browser.all("td[data-column=label]"))
    browser.driver.refresh()  # the browser keeps sort, columns and filter
    browser.wait(lambda: names(browser) == own[::-1])
    assert not browser.all("td[data-column=label]")
    call(house, "POST", f"{at('.' + chr(92) + 'private$' + chr(92) + 'tree-a')}/messages", {})
    browser.wait(lambda: browser.one_text("tr[data-key$=tree-a] [data-column=messages]") == "2")


@pytest.mark.visits("create_queue", "show_queue", "set_queue", "delete_queue", "show_access")
def test_a_queue_is_created_changed_and_deleted(browser: Browser, house: House) -> None:
    browser.open("queues")
    browser.click("#create")
    browser.write("#field-path", "bad/name/of/queue")
    browser.expected = ("/api/v1/queues",)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-path", "made-here")
    browser.write("#field-label", "<b>bold</b>")
    browser.click("#field-transactional")
    assert browser.faults() == []
    browser.click("dialog button.primary")
    browser.wait(lambda: not browser.all("dialog"))
    browser.click("a", "made-here")
    browser.one("dd", "<b>bold</b>")
    browser.one("#main section.card", "everyone")
    browser.click("button", "Properties")
    browser.one("dialog .hint", "Empty: the subqueue ;poison.")
    for wrong in ("10 MiB", "-1", "1.5"):
        browser.write("#field-quota_kib", "")
        browser.one("#field-quota_kib").send_keys(wrong)
        browser.click("dialog button.primary")
        browser.one("dialog .notice.bad", f"Quota in KiB: {wrong} does not fit.")
    browser.write("#field-quota_kib", "64")
    browser.write("#field-max_aborts", "3")
    browser.write("#field-retry_delays_s", "1, soon")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "not whole numbers")
    browser.write("#field-retry_delays_s", "1, 10, 60")
    browser.click("#field-journal")
    browser.click("dialog button.primary")
    browser.one("dd", "64.0 KiB")
    browser.one("dd", "after 3 aborts to the subqueue ;poison")
    assert call(house, "GET", at(".\\private$\\made-here"))["journal"] is True
    assert call(house, "GET", at(".\\private$\\made-here"))["retry_delays_s"] == [1, 10, 60]
    browser.click("button", "Delete")
    browser.write("#field-name", "another")
    browser.click("dialog button.danger")
    browser.one("dialog", "nothing was deleted.")
    browser.write("#field-name", "made-here")
    browser.click("dialog button.danger")
    browser.one("main h1", "Queues")
    browser.wait(lambda: "made-here" not in browser.one_text("tbody"))


@pytest.mark.visits("purge_queue")
def test_a_purge_shows_first_what_it_removes(browser: Browser, house: House) -> None:
    path = made(house, "full")
    for _ in range(3):
        call(house, "POST", f"{at(path)}/messages", {"label": "x"})
    browser.open(page("queues", path))
    browser.click("button", "Purge")
    browser.one("dialog", "3 messages")
    browser.click("dialog button", "Cancel")
    assert call(house, "GET", at(path))["messages"] == 3
    browser.click("button", "Purge")
    browser.click("dialog button.danger", "Remove 3 messages")
    browser.one(".toast", "3 messages removed.")
    assert call(house, "GET", at(path))["messages"] == 0


@pytest.mark.visits("grant", "deny", "revoke", "show_access")
def test_rights_are_granted_denied_and_removed(browser: Browser, house: House) -> None:
    path = made(house, "shared")
    browser.open(page("queues", path))
    browser.click("button", "Grant")
    browser.write("#field-who", "nobody-of-that-name")
    browser.expected = ("/access/grant",)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-who", "users")
    browser.click("dialog button.primary")
    browser.one("section[aria-label=Access] tr", "users")
    browser.click("button", "Deny")
    browser.write("#field-who", "anonymous")
    browser.click("dialog button.danger")
    browser.one("section[aria-label=Access] tr", "denied")
    row = browser.one("section[aria-label=Access] tr", "anonymous")
    row.find_element("css selector", "button").click()
    browser.click("dialog button.danger")
    browser.wait(lambda: "anonymous" not in browser.one_text("section[aria-label=Access]"))


@pytest.mark.visits(
    "pause_queue", "resume_queue", "retry_queue", "reset_sequence", "show_sequences"
)
def test_an_outgoing_queue_is_paused_and_connects(browser: Browser, house: House) -> None:
    sent = {"label": "to nowhere", "delivery": "transactional"}
    call(house, "POST", f"{at(FAR)}/messages", sent)
    browser.open("queues")
    browser.write("[data-filter]", "outgoing")
    browser.click("a", "far")
    browser.one("h2", "Connection history")
    browser.one("section[aria-label='Sequence that goes out'] dd", "/ 2")  # the next place
    browser.click("button", "Pause")
    browser.one("button", "Resume")
    assert "Connect now" not in browser.text  # it is paused
    browser.click("button", "Resume")
    browser.one("button", "Pause")
    browser.click("button", "Connect now")
    browser.one(".toast", "It tries to connect now.")
    browser.click("button", "Reset sequences")
    browser.one("dialog", "1 sequence")
    assert browser.faults() == []
    browser.click("dialog button.danger")
    browser.one(".toast", "The sequences begin again.")
