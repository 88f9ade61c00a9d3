"""Messages in the console: looked at without being taken, filtered, sent, moved, exported."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from tests.console.houses import HOSTILE, at, call, ids, labels, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")


def shown(browser: Browser, column: str = "label") -> list[str]:
    return [one.text for one in browser.all(f"td[data-column={column}]")]


@pytest.mark.visits("list_messages", "find_messages", "list_queues")
def test_pages_and_filters(browser: Browser, house: House) -> None:
    path = made(house, "browsed")
    for number in range(60):
        send(house, path, label=f"browsed {number}", priority=number % 2)
    browser.open(page("messages", path))
    browser.wait(lambda: len(shown(browser)) == 50)
    browser.click("#next")
    browser.wait(lambda: len(shown(browser)) == 10)
    browser.click("a.button", "First page")
    browser.wait(lambda: len(shown(browser)) == 50)
    browser.click("#filter-help")
    assert browser.faults() == []
    browser.click("dialog button", 'label ~ "order"')
    assert browser.script("return document.activeElement.value") == 'label ~ "order"'
    browser.write("#where", 'label ~ "browsed 3" and priority = 1')
    browser.click("#save")
    browser.click("form.toolbar button.primary")
    wanted = [f"browsed {number}" for number in (3, 31, 33, 35, 37, 39)]
    browser.wait(lambda: shown(browser) == wanted)
    browser.one(".heading [role=status]", "6 shown, 60 of 60 looked at")
    browser.write("#queue", "")
    browser.click("form.toolbar button.primary")  # through all queues
    browser.wait(lambda: shown(browser) == wanted and len(shown(browser, "queue")) == 6)
    browser.expected = ("/messages?",)
    browser.write("#where", "priority >")
    browser.click("form.toolbar button.primary")
    browser.one(".notice.bad")
    browser.write("#saved", 'label ~ "browsed 3" and priority = 1')
    browser.wait(lambda: shown(browser) == wanted)
    browser.click("#forget")
    browser.wait(lambda: len(browser.all("#saved option")) == 1)
    assert call(house, "GET", at(path))["messages"] == 60  # looking takes nothing


@pytest.mark.visits("show_message", "explain_message")
def test_every_field_of_a_message_is_shown_as_text(browser: Browser, house: House) -> None:
    path = made(house, "hostile", label=HOSTILE[:124])
    xml = f"<order note='x'><!--{HOSTILE.replace('--', '')}--><b>bold</b></order>"
    send(house, path, label=HOSTILE, body_text=HOSTILE)
    send(
        house,
        path,
        label="bus",
        body_text=xml,
        extension=b64encode(HOSTILE.encode()).decode(),
        response_queue=f"DIRECT=OS:{'<b>x'}\\private$\\a",
        admin_queue="DIRECT=OS:a\\private$\\<i>y",
    )
    headers = "".join(
        f"<HeaderInfo><Key>{escape(key)}</Key><Value>{escape(value)}</Value></HeaderInfo>"
        for key, value in {
            "NServiceBus.EnclosedMessageTypes": HOSTILE,
            "NServiceBus.ExceptionInfo.Message": HOSTILE,
            "NServiceBus.ExceptionInfo.ExceptionType": HOSTILE,
            "NServiceBus.FailedQ": HOSTILE,
            HOSTILE: "<b>x</b>",
        }.items()
    )
    bus = f"<ArrayOfHeaderInfo>{headers}</ArrayOfHeaderInfo>"
    send(
        house,
        path,
        label="headers",
        body_text="<Order/>",
        extension=b64encode(bus.encode()).decode(),
    )
    for address in ("queues", page("queues", path), page("messages", path)):
        browser.open(address)
        browser.one("main h1")
        browser.wait(lambda: HOSTILE[:60] in browser.text)
    panels = list[str]()
    for lookup_id in ids(house, path):
        browser.open(page("messages", path, lookup_id))
        browser.one("[role=tab]")
        for tab in browser.all("[role=tab]"):
            tab.click()
            panels.append(browser.one("[role=tabpanel]").text)
            assert panels[-1]
        browser.one("section[aria-label=Life] .life")
    assert any("NServiceBus.FailedQ" in text and "<script>" in text for text in panels)
    browser.open(page("messages", path, where='label ~ "<script>"'))
    browser.wait(lambda: shown(browser) == [HOSTILE])
    browser.open(page("queues", filter=HOSTILE + "x"))
    browser.one(".empty")
    assert browser.script("return window.hit") is None
    assert browser.script("return document.images.length") == 0
    assert browser.script("return document.querySelectorAll('main b, main i').length") == 0


@pytest.mark.visits("show_message")
def test_a_message_is_shown_as_text_bytes_and_properties(browser: Browser, house: House) -> None:
    path = made(house, "shown")
    send(house, path, label="first", body_text='<order id="1"><total>7</total></order>')
    browser.open(page("messages", path, *ids(house, path)))
    browser.one("pre", "  <total>7</total>")  # decoded and indented
    browser.click("[role=tab]", "Hex")
    browser.one("pre", "000000  3c 6f 72 64 65 72 20 69 64 3d 22 31 22 3e 3c 74  <order id=")
    browser.keys("\ue012")  # the arrow to the left goes to the tab before
    browser.one("pre", '<order id="1">')
    browser.one("dd", "DIRECT=OS:ALPHA")
    assert browser.faults() == []
    for width in (375, 1920):
        browser.size(width)
        assert browser.overflow() <= 0


@pytest.mark.visits("list_messages")
def test_every_example_of_a_filter_is_a_filter(browser: Browser, house: House) -> None:
    path = made(house, "examples")
    browser.open(page("messages", path))
    browser.click("#filter-help")
    examples = [one.text for one in browser.all("dialog th button")]
    assert len(examples) >= 8
    for where in examples:
        call(house, "GET", f"{at(path)}/messages?where={quote(where, safe='')}")
    browser.open("failures")  # with no queue chosen, those with failures are listed
    browser.one("main h2", "Queues with failed messages")


@pytest.mark.visits("send_message")
def test_a_body_is_written_as_dotnet_reads_it(browser: Browser, house: House) -> None:
    path = made(house, "formatted")
    browser.open(page("messages", path))
    browser.expected = ("/messages",)
    for how in (
        {"formatter": "xml", "type": "int", "body_text": "42"},
        {"formatter": "xml", "root": "Order", "body_text": '{"Id": 17, "Note": "<b>"}'},
        {"formatter": "activex", "body_text": "grün"},
    ):
        browser.click("button", "Send")
        browser.write("#field-formatter", "json")
        browser.write("#field-body_text", "{")
        browser.click("dialog button.primary")
        browser.one("dialog .notice.bad", "not JSON")
        for name, value in how.items():
            browser.write(f"#field-{name}", value)
        browser.confirm()
    found = call(house, "GET", f"{at(path)}/messages")["messages"]
    assert found[0]["body_text"] == '<?xml version="1.0"?>\r\n<int>42</int>'
    assert "<Note>&lt;b&gt;</Note>" in found[1]["body_text"]
    assert (found[2]["body_text"], found[2]["body_type"]) == ("grün", 31)
    acts = [one["act"] for one in call(house, "GET", "/audit?limit=5")["entries"]]
    assert acts[:3] == ["send_message"] * 3
    browser.open(page("messages", path, found[1]["lookup_id"]))
    browser.one("pre", "<Id>17</Id>")


@pytest.mark.visits("send_message")
def test_messages_are_sent_and_edited(browser: Browser, house: House) -> None:
    path = made(house, "sent", transactional=True)
    browser.open(page("messages", path))
    browser.click("button", "Send")
    browser.write("#field-label", "by hand")
    browser.write("#field-body_text", "grün ✓")
    assert browser.faults() == []
    browser.click("dialog button.primary")
    browser.wait(lambda: shown(browser) == ["by hand"])
    browser.click("td a")
    browser.click("button", "Edit and send again")
    assert browser.one("#field-body_text").get_attribute("value") == "grün ✓"
    browser.write("#field-label", "edited")
    browser.expected = ("/messages",)
    browser.write("#field-correlation_id", "nonsense")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "correlation_id")
    browser.write("#field-correlation_id", "")
    browser.click("dialog button.primary")
    browser.one(".toast", "Sent as")
    assert labels(house, path) == ["by hand", "edited"]


@pytest.mark.visits("begin_operation", "show_operation", "forget_operation")
def test_acts_on_many_show_first_what_they_would_do(browser: Browser, house: House) -> None:
    path, other = made(house, "many"), made(house, "others")
    for number in range(6):
        send(house, path, label=f"many {number}")
    browser.open(page("messages", path))
    browser.wait(lambda: len(shown(browser)) == 6)
    for box in browser.all("td.mark input")[:2]:
        box.click()
    browser.one(".toolbar .muted", "2 marked")
    browser.click("button", "Move")
    browser.write("#field-to", "no such queue at all")
    browser.expected = ("/operations",)
    browser.click("dialog button.primary")
    browser.one("dialog .notice")
    browser.write("#field-to", other)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "Preview: 2 messages would be taken. Nothing has changed yet.")
    assert labels(house, other) == []
    browser.write("#field-to", f"{other} ")  # another value needs another preview
    browser.click("dialog button.primary", "Preview")
    browser.one("dialog .notice.ok", "2 messages would be taken.")
    browser.one("dialog button.primary", "Move 2 messages")
    browser.write("#field-to", other)
    browser.write("#field-to", f"{other} ")  # typed and taken back: the button is Preview again
    browser.click("dialog button.primary", "Preview")
    browser.one("dialog button.primary", "Move 2 messages")
    assert labels(house, other) == []
    browser.click("dialog button.primary", "Move 2 messages")
    browser.one("dialog .notice.ok", "2 messages done.")
    browser.click("dialog button", "Close")
    assert labels(house, other) == ["many 0", "many 1"]
    for act, number, target in (("Copy", 2, other), ("Send again", 2, other), ("Delete", 3, "")):
        browser.open(page("messages", path, where=f'label = "many {number}"'))
        browser.wait(lambda number=number: shown(browser) == [f"many {number}"])  # type: ignore[misc]
        assert not browser.one("main .toolbar button", act).is_enabled()  # nothing is marked
        browser.click("#all")
        browser.click("main .toolbar button", f"{act} all that match")
        if target:
            browser.write("#field-to", target)
        browser.click("dialog form .buttons button:last-child")
        browser.one("dialog .notice.ok", "1 message would be taken.")
        browser.click("dialog form .buttons button:last-child", f"{act} 1 message")
        browser.one("dialog .notice.ok", "1 message done.")
        browser.click("dialog button", "Close")
    assert labels(house, other) == ["many 0", "many 1", "many 2", "many 2"]
    assert labels(house, path) == ["many 4", "many 5"]


def test_a_bare_name_is_a_private_queue(browser: Browser, house: House) -> None:
    path, other = made(house, "bare"), made(house, "bare-target")
    send(house, path, label="by its name")
    browser.open(page("messages"))
    browser.write("#queue", "bare")
    browser.click("form button.primary", "Show")
    browser.wait(lambda: shown(browser) == ["by its name"])
    assert not browser.one("main button", "Move").is_enabled()
    browser.one("label[for=all]", "All 1 messages")
    browser.click("#all")
    browser.click("button", "Move all 1")
    browser.write("#field-to", "bare-target")
    browser.click("dialog button[type=submit]")
    browser.click("dialog button[type=submit]", "Move 1 message")
    browser.one("dialog .notice.ok", "1 message done.")
    browser.click("dialog button", "Close")
    assert labels(house, other) == ["by its name"]


@pytest.mark.visits("begin_operation")
def test_failed_messages_return_to_their_source(browser: Browser, house: House) -> None:
    path = made(house, "source")
    send(house, path, label="to return", delivery="recoverable", journal=["negative"])
    call(house, "POST", f"{at(path)}/purge")
    dead = "ALPHA\\system$;deadletter"
    browser.open(page("messages", dead, where='label = "to return"'))
    browser.wait(lambda: shown(browser) == ["to return"])
    browser.one("td .badge.bad", "nack-queue-purged")
    browser.one("td .hint", "its queue was purged")
    browser.click("td.mark input")
    browser.click("button", "Return to source 1")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "1 message would be taken.")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "1 message done.")
    assert labels(house, path) == ["to return"]


def test_messages_are_exported_and_imported(browser: Browser, house: House, tmp_path: Path) -> None:
    path, other = made(house, "exported"), made(house, "imported")
    for number in range(3):
        send(house, path, label=f"out {number}", body=b64encode(bytes([number, 255])).decode())
    browser.downloads(tmp_path)
    browser.open(page("messages", path))
    browser.wait(lambda: len(shown(browser)) == 3)
    browser.click("button", "Export")
    browser.one(".toast", "3 messages written.")
    browser.wait((tmp_path / "exported.jsonl").exists)
    lines = (tmp_path / "exported.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["out 0", "out 1", "out 2"]
    bad = tmp_path / "bad.jsonl"
    bad.write_text(lines[0] + "\n[]\n")
    browser.open(page("messages", other))
    browser.click("button", "Import")
    browser.one("#import-file").send_keys(str(bad))
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "Line 2 of the file is not a message of an export.")
    assert labels(house, other) == []
    browser.one("#import-file").send_keys(str(tmp_path / "exported.jsonl"))
    browser.click("dialog button.primary")
    browser.one("dialog .notice.ok", "3 messages sent.")
    found = call(house, "GET", f"{at(other)}/messages")["messages"]
    assert [(one["label"], one["body"]) for one in found] == [
        (f"out {number}", b64encode(bytes([number, 255])).decode()) for number in range(3)
    ]


def test_the_role_look_sees_no_content(browser: Browser, house: House) -> None:
    path = made(house, "secret")
    send(house, path, label="sealed", body_text="the secret")
    token = call(house, "POST", "/tokens", {"role": "look"})["token"]
    browser.sign_in(token)
    browser.open(page("messages", path))
    browser.wait(lambda: shown(browser) == ["sealed"])
    assert not [one for one in browser.all("main button") if one.text in ("Send", "Delete")]
    browser.open(page("messages", path, *ids(house, path)))
    browser.one("section[aria-label=Body]", "Your role does not show the content of messages.")
    assert "the secret" not in browser.driver.page_source


@pytest.mark.visits("explain_message")
def test_the_life_of_a_message_that_has_left(browser: Browser, house: House) -> None:
    path = made(house, "left")
    identifier = send(house, path, label="short life", delivery="recoverable")
    browser.open("life")
    browser.one(".empty", "Write the identifier")
    browser.write("#identifier", identifier)
    browser.click("form.toolbar button.primary")
    browser.one(".life li", "waiting")
    call(house, "DELETE", f"{at(path)}/messages/{ids(house, path)[0]}")
    browser.click("#peers")
    browser.click("form.toolbar button.primary")
    browser.one(".life li.left", "received")
    assert browser.faults() == []
    browser.expected = ("/explain",)
    browser.write("#identifier", "<script>")
    browser.click("form.toolbar button.primary")
    browser.one(".notice.bad")
