"""Users, tokens, certificates, transactions, groups and the audit log in the console."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

import posthouse
from posthouse.api.route import ARROW
from tests.console.houses import HOSTILE, at, call, made, page, send
from tests.protocols.admin.stage_tables import stream, table
from tests.support.browser import Browser
from tests.support.certificate_files import bundle

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")


@pytest.mark.visits(
    "list_users", "add_user", "set_user", "set_password", "delete_user",
    "list_tokens", "create_token", "revoke_token",
    "list_certificates", "make_keys", "remove_certificate",
)  # fmt: skip
def test_users_tokens_and_certificates(browser: Browser, house: House) -> None:
    browser.open("users")
    browser.click("[data-focus=create-user]")
    browser.write("#field-name", "<i>dora</i>")
    browser.write("#field-password", "first words")
    assert browser.faults() == []
    browser.expected = ("/api/v1/users",)
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")  # a name has no brackets
    browser.write("#field-name", "dora")
    browser.confirm()
    browser.click("[data-focus='change dora']")
    browser.write("#field-role", "look")
    browser.confirm()
    browser.wait(lambda: call(house, "GET", "/users/dora")["role"] == "look")
    browser.click("[data-focus='password dora']")
    browser.write("#field-password", "second words")
    browser.confirm()
    browser.click("[data-focus=create-token]")
    browser.write("#field-user", "dora")
    browser.click("dialog button.primary")
    token = browser.one("#new-token").text
    with posthouse.connect(url=house.url, token=token) as manager:
        assert manager.call("GET", "/status")["name"] == "ALPHA"
    browser.click("dialog button", "Close")
    (made,) = [one for one in call(house, "GET", "/tokens")["tokens"] if one["user"] == "dora"]
    assert made["role"] == "look"
    browser.click(f"[data-focus='revoke {made['id']}']")
    browser.confirm()
    browser.click("[data-focus=make-keys]")
    browser.write("#field-user", "dora")
    browser.confirm()
    found = call(house, "GET", "/certificates")["certificates"]
    (paper,) = [one for one in found if one["owner"] == "dora"]
    browser.click(f"[data-focus='certificate {paper['id']}']")
    browser.confirm()
    browser.click("[data-focus='delete dora']")
    browser.confirm()
    browser.wait(lambda: "dora" not in browser.text)
    assert token not in browser.text


@pytest.mark.visits("show_user", "import_certificate", "trust_certificate", "export_keys")
def test_a_user_has_a_page_with_certificates(
    browser: Browser, house: House, tmp_path: Path
) -> None:
    call(house, "POST", "/users", {"name": "erik", "password": "some words"})
    browser.open(page("users", "erik"))
    browser.one("dd", "S-1-")
    (tmp_path / "erik.p12").write_bytes(bundle("alice", b"opens it"))
    browser.click("[data-focus=import]")
    browser.choose_file("#field-file", tmp_path / "erik.p12")
    browser.write("#field-password", "wrong")
    browser.expected = ("/certificates", "/trust")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-password", "opens it")
    browser.confirm()
    browser.one("section[aria-label=Certificates] td", "here")  # with its private key
    assert browser.faults() == []
    browser.size(375)
    assert browser.overflow() <= 0
    browser.size(1280)
    browser.open("users")
    browser.downloads(tmp_path)
    call(house, "POST", "/certificates", {"replace": True})
    browser.click("[data-focus=save-keys]")
    saved = tmp_path / "ALPHA.json"
    browser.wait(saved.exists)
    keys = json.loads(saved.read_text())
    assert keys["guid"] == call(house, "GET", "/status")["guid"]
    other = {**keys, "guid": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b21", "name": "ELSEWHERE"}
    (tmp_path / "other.json").write_text(json.dumps(other))
    (tmp_path / "nothing.json").write_text("{}")
    browser.click("[data-focus=trust]")
    browser.choose_file("#field-file", tmp_path / "nothing.json")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "does not name its owner")
    browser.choose_file("#field-file", tmp_path / "other.json")
    browser.confirm()
    browser.one("section[aria-label=Certificates] td", "ELSEWHERE")
    call(house, "DELETE", "/users/erik")


@pytest.mark.visits("set_user")
def test_sessions_of_a_user_are_ended(browser: Browser, house: House) -> None:
    call(house, "POST", "/users", {"name": "frida", "password": "some words"})
    with posthouse.connect(url=house.url, user="frida", password="some words") as manager:
        manager.call("GET", "/status")
        browser.open(page("users", "frida"))
        browser.click("[data-focus=end]")
        browser.confirm()
        browser.sees("The sessions have ended.")
        user = call(house, "GET", "/users/frida")
        assert (user["disabled"], user["role"], user["doors"]) == (False, None, ["http"])
    call(house, "DELETE", "/users/frida")


@pytest.mark.visits("show_audit")
def test_the_audit_log_shows_who_did_what(browser: Browser, house: House) -> None:
    for name in ("audited-1", "audited-2"):
        call(house, "POST", "/queues", {"path": f".\\private$\\{name}", "label": "<b>x</b>"})
    browser.open("audit")
    browser.sees("audited-1")
    browser.sees("<b>x</b>")
    browser.one("td span[title=create_queue]", "Create a queue")
    browser.write("input[aria-label=Act]", "delete_user")
    browser.wait(lambda: "audited-1" not in browser.text)
    browser.write("input[aria-label=Act]", "create a queue")
    browser.sees("audited-2")


@pytest.mark.visits("list_transactions", "commit_transaction", "abort_transaction")
def test_a_transaction_is_ended_by_an_operator(browser: Browser, house: House) -> None:
    call(house, "POST", "/queues", {"path": ".\\private$\\ended", "transactional": True})
    browser.expected = ("/api/v1/transactions",)
    with posthouse.connect(house.home) as manager:
        queue = manager.queue(".\\private$\\ended")
        for verb, word in (("abort", "Abort"), ("commit", "Commit")):
            transaction = manager.transaction().begin()
            queue.send(b"x", tx=transaction)
            browser.open("overview")
            browser.open("transactions")
            browser.click("button", word)
            browser.click("dialog button.danger")
            if verb == "commit":  # only those that are prepared can be committed here
                browser.one("dialog .notice.bad")
                browser.click("dialog button", "Cancel")
            else:
                browser.sees("Aborted.")
            with contextlib.suppress(posthouse.QueueError):
                transaction.abort()
        assert queue.count() == 0


@pytest.mark.visits("list_groups", "release_group", "set_group", "delete_group", "list_stages")
def test_a_group_is_released_moved_and_deleted(browser: Browser, house: House) -> None:
    path = call(house, "POST", "/queues", {"path": ".\\private$\\grouped"})["path"]
    at = f"/queues/{quote(path, safe='')}"
    for _ in range(3):
        call(house, "POST", f"{at}/messages", {"delivery": "recoverable"})
    group = f"{at}/groups/etl-1"
    leased = call(house, "POST", f"{group}/lease", {"mode": "consume", "owner": "<i>spark</i>"})
    last = call(house, "GET", f"{at}/messages")["messages"][1]["lookup_id"]
    claim = {"epoch": leased["epoch"], "after": leased["position"], "through": last, "stream": "s"}
    call(house, "POST", f"{group}/claim", claim)
    browser.open("groups")
    browser.sees("etl-1")
    browser.sees("2 messages")
    assert browser.faults() == []
    browser.click(f"[data-focus='release {path} etl-1']".replace("\\", "\\\\"))
    browser.confirm()
    browser.wait(lambda: "2 messages" not in browser.text)
    browser.click(f"[data-focus='position {path} etl-1']".replace("\\", "\\\\"))
    browser.write("#field-position", "latest")
    browser.confirm()
    browser.wait(lambda: call(house, "GET", group)["lag_messages"] == 0)
    browser.click(f"[data-focus='delete {path} etl-1']".replace("\\", "\\\\"))
    browser.confirm()
    browser.wait(lambda: "etl-1" not in browser.text)


@pytest.mark.visits("show_group", "acknowledge_messages")
def test_what_a_group_has_written_is_settled(browser: Browser, house: House) -> None:
    path = made(house, "settled")
    for _ in range(3):
        send(house, path, delivery="recoverable")
    group = f"{at(path)}/groups/etl-2"
    leased = call(house, "POST", f"{group}/lease", {"mode": "consume", "owner": HOSTILE[:60]})
    last = call(house, "GET", f"{at(path)}/messages")["messages"][1]["lookup_id"]
    epoch = leased["epoch"]
    claim = {"epoch": epoch, "after": leased["position"], "through": last, "stream": "s"}
    call(house, "POST", f"{group}/claim", claim)
    browser.open(page("queues", path))
    browser.click("section[aria-label=Groups] a", "etl-2")
    browser.one("dd", "2 messages, above")
    assert browser.faults() == []
    browser.expected = ("/acknowledge",)
    browser.click("button", "Settle")
    browser.click("dialog button.danger")
    browser.one("dialog .notice.bad")  # its reader is at work
    browser.click("dialog button", "Cancel")
    end = {"mode": "consume", "owner": "x", "epoch": epoch, "end": True}
    call(house, "POST", f"{group}/lease", end)
    browser.one("dd", "none; the last was <img")
    browser.click("button", "Settle")
    browser.confirm()
    browser.sees("2 messages received.")
    browser.one("dd", "nothing")
    assert call(house, "GET", at(path))["messages"] == 1
    acts = [one["act"] for one in call(house, "GET", "/audit?limit=10")["entries"]]
    assert "acknowledge_messages" in acts  # what a person does in the console is an act
    assert browser.script("return window.hit") is None
    browser.click("button", "Delete")
    browser.confirm()
    browser.one("main h1", "Groups and pipelines")


@pytest.mark.visits("list_stages", "discard_batch")
def test_a_batch_that_is_not_published_is_discarded(browser: Browser, house: House) -> None:
    path = call(house, "POST", "/queues", {"path": ".\\private$\\staged"})["path"]
    request = Request(
        f"{house.url}/api/v1/stages/%3Cb%3Equery/0/0/0?queue={quote(path, safe='')}",
        stream(table([{"body": b"x"}, {"body": b"y"}])),
        {"Authorization": f"Bearer {house.token}", "Content-Type": ARROW},
        method="PUT",
    )
    urlopen(request).close()
    browser.open("groups")
    browser.sees("<b>query")
    browser.click("button", "Discard")
    browser.confirm()
    browser.sees("No batch waits.")
    assert call(house, "GET", "/stages")["stages"] == []
