"""What the console advises: links instead of shell commands, and words that lead on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.console.houses import at, call, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
HELD = "DIRECT=TCP:127.0.0.1:9\\private$\\held"


@pytest.fixture(scope="module")
def held(house: House) -> Iterator[str]:
    """The identifier of a message in a paused outgoing queue."""
    name = send(house, HELD, label="to a paused queue", delivery="recoverable")
    call(house, "POST", f"{at(HELD)}/pause")
    yield name
    call(house, "POST", f"{at(HELD)}/purge")
    call(house, "POST", f"{at(HELD)}/resume")


def claimed(house: House, name: str) -> str:
    """A queue with a message that a group has claimed and no reader takes."""
    path = made(house, name)
    send(house, path, label="claimed", delivery="recoverable")
    group = f"{at(path)}/groups/lost"
    lease = call(house, "POST", f"{group}/lease", {"mode": "consume", "owner": "reader"})
    until = {"epoch": lease["epoch"], "through": lease["position"] + 1, "stream": "a"}
    call(house, "POST", f"{group}/claim", until)
    return path


def button(act: str, path: str, group: str) -> str:
    """The selector of a button of a group."""
    name = f"{act} {path} {group}".replace("\\", "\\\\")
    return f"[data-focus='{name}']"


@pytest.mark.visits("show_status")
def test_a_paused_queue_is_a_problem_with_a_link(browser: Browser, held: str) -> None:
    browser.open("overview")
    browser.one("#health li", f"{HELD} is paused (1 message waiting).")
    browser.one("section td .badge.warn", "paused")
    assert "posthouse queue resume" not in browser.text
    links = browser.all("#health li a")
    assert f"#/queues/{quote(HELD, safe='')}" in [one.get_attribute("hash") for one in links]
    browser.open(page("queues", HELD))
    browser.one("button", "Resume")
    browser.one(".badge.warn", "paused")
    assert browser.faults() == []


@pytest.mark.visits("explain_message")
def test_the_life_of_a_message_leads_to_its_queue(browser: Browser, held: str) -> None:
    browser.open(page("life", held))
    browser.one("p", "it is paused: Show the queue")
    assert "posthouse" not in browser.one_text("section[aria-label=Life]")
    browser.click("section[aria-label=Life] a", HELD)
    browser.one("h1", HELD)


@pytest.mark.visits("show_status")
def test_a_full_queue_is_marked(browser: Browser, house: House) -> None:
    path = made(house, "brimful", quota_kib=10)
    send(house, path, body_text="x" * 9_700)
    browser.open("overview")
    browser.one("#health li", f"{path}: 9")
    browser.one("#health li", "% of its quota of 10 KiB is used.")
    browser.open(page("queues", path))
    browser.one(".badge.warn", "nearly full")
    browser.one("dd", "of 10.0 KiB")
    browser.open("queues")
    browser.one("td .badge.warn", "nearly full")
    call(house, "DELETE", at(path))


@pytest.mark.visits("list_groups", "release_group")
def test_a_claimed_group_offers_only_what_the_server_does(browser: Browser, house: House) -> None:
    path = claimed(house, "claimed-for-ever")
    browser.open("groups")
    browser.one(button("release", path, "lost"))
    assert browser.all(button("delete", path, "lost")) == []
    browser.click(button("release", path, "lost"))
    browser.confirm()
    browser.one(button("delete", path, "lost"))
    call(house, "DELETE", at(path))


@pytest.mark.visits("set_group")
def test_a_refusal_has_a_link_instead_of_a_command(browser: Browser, house: House) -> None:
    path = made(house, "claimed-meanwhile")
    call(house, "POST", f"{at(path)}/groups/late/lease", {"mode": "observe", "owner": "reader"})
    call(house, "POST", f"{at(path)}/groups/late/release")
    browser.open("groups")
    browser.click(button("position", path, "late"))
    call(house, "POST", f"{at(path)}/groups/late/lease", {"mode": "observe", "owner": "reader"})
    browser.expected = ("/groups/late",)
    browser.click("dialog button.primary")
    browser.click("dialog .notice.bad a", "Show the group")
    browser.one("h1", "late")
    assert browser.all("dialog") == []
    call(house, "POST", f"{at(path)}/groups/late/release")
    call(house, "DELETE", at(path))


def test_words_without_a_comparison_are_looked_for_in_labels(
    browser: Browser, house: House
) -> None:
    path = made(house, "labelled")
    for label in ("Invoice 17\\a", "Invoice 18", "encrypted"):
        send(house, path, label=label)
    browser.open(page("messages", path))
    for words, label in (("invoice 18", "Invoice 18"), ("17\\a", "Invoice 17\\a")):
        browser.write("#where", words)
        browser.click("button", "Show")
        browser.one("[role=status]", "1 shown")
        browser.one("td", label)
    browser.write("#where", "not encrypted")  # which is a filter
    browser.click("button", "Show")
    browser.one("[role=status]", "3 shown")
    call(house, "DELETE", at(path))


@pytest.mark.visits("add_user", "list_users")
def test_a_user_with_a_role_alone_is_told_what_is_missing(browser: Browser, house: House) -> None:
    browser.open("users")
    browser.click("[data-focus=create-user]")
    browser.write("#field-name", "counter")
    browser.write("#field-password", "words of the counter")
    browser.write("#field-role", "look")
    browser.sees("An administrator with the role look sees the counts of all queues")
    browser.confirm()
    browser.one("td a", "counter")
    enter(browser)
    browser.one("#health", "There is no queue that you may look at.")
    assert "All is well" not in browser.text
    call(house, "PATCH", "/users/counter", {"administrator": True})
    browser.sign_in(house.token)
    browser.open("users")
    browser.one("td", "administrator, limited to look")
    enter(browser)
    send(house, made(house, "counted"), label="seen")
    browser.open("queues")
    browser.one("#main td a", "counted")
    browser.open("failures")
    browser.one("#trouble .notice", "The page Failures is for the role read. Yours is look.")
    call(house, "DELETE", "/users/counter")


def enter(browser: Browser) -> None:
    browser.click("#sign-out")
    browser.click("label[for=by-password]")
    browser.write("#user", "counter")
    browser.write("#password", "words of the counter")
    browser.click("button.primary")
    browser.one(".who", "look")


@pytest.mark.visits("list_operations", "show_audit")
def test_tables_fit_at_1400_pixels(browser: Browser, house: House) -> None:
    path, other = made(house, "from-a-queue-with-a-name"), made(house, "to-another-queue")
    send(house, path, label="order")
    body = {"act": "move", "queue": path, "where": 'label ~ "order" and priority < 7', "to": other}
    call(house, "POST", "/operations", body)
    browser.size(1400)
    for name in ("operations", "audit", "users", "transfer", "groups", "overview"):
        browser.open(name)
        browser.one("#main td, #main .empty")
        assert browser.script(HIDDEN) == [], f"{name} {browser.script(WIDTHS)}"
        for cell in browser.script(TIMES):
            assert cell["lines"] == 1, (name, cell)
    for queue in (path, other):
        call(house, "DELETE", at(queue))


HIDDEN = """
return [...document.querySelectorAll("#main .scroll")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText);
"""
WIDTHS = """
return [...document.querySelectorAll("#main tbody tr:first-child > *")].map(
    (one) => [one.innerText, one.offsetWidth]);
"""
TIMES = """
const time = /^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d$/;
return [...document.querySelectorAll("#main td")].filter(
    (one) => time.test(one.innerText.trim())).map((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return {text: one.innerText, lines: range.getClientRects().length};
});
"""


@pytest.mark.visits("show_message")
def test_the_dialog_to_send_shows_fields_when_they_are_needed(
    browser: Browser, house: House
) -> None:
    path = made(house, "edited")
    send(house, path, label="old", body_text="old")
    number = call(house, "GET", f"{at(path)}/messages")["messages"][0]["lookup_id"]
    browser.open(page("messages", path, number))
    browser.click("button", "Edit and send again")
    browser.one("dialog", "The old one stays in its queue.")
    assert not browser.script("return document.querySelector('#field-root').checkVisibility()")
    browser.write("#field-formatter", "xml")
    browser.one("#field-root")
    browser.click("dialog button", "Cancel")
    call(house, "DELETE", at(path))


@pytest.mark.visits("list_queues", "show_status")
def test_an_outgoing_queue_without_messages_is_idle(browser: Browser, house: House) -> None:
    path = HELD.replace("held", "emptied")
    send(house, path, label="to be purged", delivery="recoverable")
    browser.open("transfer")
    browser.one(button("retry", path, "").replace(" ']", "']"))
    call(house, "POST", f"{at(path)}/purge")
    rows = "[...document.querySelectorAll('#main tr')]"
    row = f"return {rows}.find((one) => one.innerText.includes('emptied')).innerText"
    browser.wait(lambda: "\tidle\t" in browser.script(row), "no idle queue")
    assert "Connect now" not in browser.script(row)
    assert "no listener" not in browser.script(row)


@pytest.mark.visits("show_audit")
def test_the_audit_log_is_filtered_while_one_types(browser: Browser, house: House) -> None:
    path = made(house, "purged-today")
    call(house, "POST", f"{at(path)}/purge")
    browser.open("audit")
    browser.one("td", "Create a queue")
    browser.one("[aria-label=Act]").send_keys("purge")
    browser.wait(lambda: "Create a queue" not in browser.text)
    browser.one("td", "Purge a queue")
    call(house, "DELETE", at(path))
