"""Job queues, transfer and the directory in the console."""

from __future__ import annotations

import json
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

import posthouse
from tests.console.houses import HOSTILE, call, page
from tests.support.browser import Browser
from tests.wire.srmp import envelope, msmq, path, properties

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
BILLS = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b13"
OTHER = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b12"
PEER = {"guid": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11", "url": "http://127.0.0.1:9"}


@pytest.mark.visits(
    "list_job_queues", "create_job_queue", "show_job_queue", "set_job_queue", "delete_job_queue",
    "list_jobs", "list_job_history", "change_job", "place_job", "remove_job",
)  # fmt: skip
def test_jobs_are_held_moved_and_removed(browser: Browser, house: House) -> None:
    browser.open("jobs")
    browser.click("[data-focus=create-job-queue]")
    browser.write("#field-name", "REPORTS")
    browser.write("#field-users", "SUPERVISOR")
    browser.confirm()
    jobs = "/job-queues/REPORTS/jobs"
    for name in ("<b>one</b>", "two"):
        call(house, "POST", jobs, {"file": "eA==", "description": name})
    browser.click("a", "REPORTS")
    browser.sees("<b>one</b>")
    first, second = [one["number"] for one in call(house, "GET", jobs)["jobs"]]
    browser.click(f"[data-focus='hold {first}']")
    browser.one(".badge.warn", "held")
    browser.click(f"[data-focus='hold {first}']")
    browser.wait(lambda: not browser.all(".badge.warn"))
    browser.click(f"[data-focus='first {second}']")
    numbers = [second, first]
    browser.wait(lambda: [one["number"] for one in call(house, "GET", jobs)["jobs"]] == numbers)
    browser.click(f"[data-focus='remove {first}']")
    browser.confirm()
    browser.wait(lambda: call(house, "GET", jobs)["total"] == 1)
    browser.click("[data-focus=status]")
    browser.click("#field-no_new_jobs")
    browser.confirm()
    browser.sees("No new jobs")
    assert browser.faults() == []
    browser.open("overview")
    browser.sees("REPORTS")
    browser.one("main h2", "Job queues")
    assert browser.faults() == []
    browser.open("jobs")
    browser.click("a", "REPORTS")
    browser.click("[data-focus=delete]")
    browser.confirm()
    browser.sees("There is no job queue.")


@pytest.mark.visits("submit_job", "show_job", "move_job", "show_server_status", "change_job")
def test_a_job_is_submitted_shown_and_moved(browser: Browser, house: House, tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_bytes(b"12345")
    for name in ("FIRST", "SECOND"):
        lists = {"users": ["SUPERVISOR"], "servers": ["SUPERVISOR"]}
        operators = ["SUPERVISOR"] if name == "FIRST" else []
        call(house, "POST", "/job-queues", {"name": name, **lists, "operators": operators})
    browser.open(page("jobs", "FIRST"))
    for words in (HOSTILE[:49], "from text"):
        browser.click("[data-focus=submit]")
        browser.write("#field-description", words)
        if words == "from text":
            browser.write("#field-content", "grün")
        else:
            browser.choose_file("#field-file", tmp_path / "job.txt")
        browser.confirm()
    jobs = "/job-queues/FIRST/jobs"
    browser.wait(lambda: call(house, "GET", jobs)["total"] == 2)
    assert [one["file_size"] for one in call(house, "GET", jobs)["jobs"]] == [5, 5]
    number = call(house, "GET", jobs)["jobs"][0]["number"]
    browser.click("main td a", str(number))
    browser.one("dd", HOSTILE[:49])
    assert browser.faults() == []
    browser.size(375)
    assert browser.overflow() <= 0
    browser.size(1280)
    browser.click("[data-focus=hold]")
    browser.one("dd .badge.warn", "held")
    browser.click("[data-focus=move]")
    browser.expected = ("/move",)
    browser.write("#field-to", "NOWHERE")
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad")
    browser.write("#field-to", "SECOND")
    browser.confirm()
    browser.wait(lambda: call(house, "GET", "/job-queues/SECOND/jobs")["total"] == 1)
    browser.one("p a", "SECOND")
    browser.click("[data-focus=hold]")
    browser.one("main .notice.bad", "Only operators of this job queue")
    with posthouse.connect(house.home) as manager:
        station = manager.call("POST", "/stations", {})["station"]
        where = f"/job-queues/FIRST/attach?station={station}"
        manager.call("POST", where)
        record = {"record": b64encode(b"<b>busy</b>" + bytes(53)).decode()}
        manager.call("POST", where.replace("attach", "server-status"), record)
        browser.open(page("jobs", "FIRST"))
        browser.click("dd button", "SUPERVISOR")
        browser.one("#server-record", "<b>busy</b>")
        browser.click("dialog button", "Close")
    assert browser.script("return window.hit") is None
    for name in ("FIRST", "SECOND"):
        call(house, "DELETE", f"/job-queues/{name}")


@pytest.mark.visits(
    "take_offline",
    "bring_online",
    "list_peers",
    "add_peer",
    "remove_peer",
    "pause_queue",
    "resume_queue",
)
def test_transfer_shows_where_messages_go(browser: Browser, house: House) -> None:
    far = "DIRECT=TCP:127.0.0.1:9\\private$\\<i>away</i>"
    with posthouse.connect(house.home) as manager:
        manager.queue(far).send(b"x", recoverable=True)
    browser.open("transfer")
    browser.sees("<i>away</i>")
    browser.one("svg.picture", "does not connect")
    browser.click("[data-focus=add-peer]")
    for name, value in {"name": "BETA", **PEER}.items():
        browser.write(f"#field-{name}", value)
    browser.click("dialog button.primary")
    key = browser.one("#new-key").text
    browser.click("dialog button", "Close")
    assert [one["name"] for one in call(house, "GET", "/peers")["peers"]] == ["BETA"]
    assert key not in browser.text
    path = next(
        one["path"] or one["format_name"]
        for one in call(house, "GET", "/queues?outgoing=true")["queues"]
        if "away" in one["format_name"]
    )
    browser.click_in("main tr", "<i>away</i>", "Pause")
    browser.wait(lambda: "paused" in browser.one("main tr", "<i>away</i>").text)
    assert "Connect now" not in browser.one("main tr", "<i>away</i>").text
    browser.click_in("main tr", "<i>away</i>", "Resume")
    browser.wait(lambda: "paused" not in browser.one("main tr", "<i>away</i>").text)
    browser.click("[data-focus=online]")
    browser.confirm()
    browser.one(".badge.warn", "offline")
    browser.click("[data-focus=online]")
    browser.confirm()
    browser.one(".badge.ok", "online")
    browser.click("[data-focus='peer BETA']")
    browser.confirm()
    browser.sees("No other queue manager takes part")
    assert browser.faults() == []
    call(house, "POST", f"/queues/{quote(path, safe='')}/purge")


@pytest.mark.visits(
    "show_directory", "refresh_directory", "show_route", "import_directory", "find_queues",
    "show_place", "remove_from_directory", "enter_user",
)  # fmt: skip
def test_the_directory_is_shown_and_asked_for_a_route(browser: Browser, house: House) -> None:
    document = {
        "sites": [{"name": "Berlin"}, {"name": "Rome"}, {"name": "Oslo"}],
        "links": [{"sites": ["Berlin", "Rome"], "cost": 7}, {"sites": ["Rome", "Oslo"]}],
        "queues": [{"path": "BETA\\bills", "guid": BILLS, "label": "<b>bills</b>"}],
        "machines": [
            {"name": "BETA", "guid": PEER["guid"], "sites": ["Berlin"]},
            {"name": "GAMMA", "guid": OTHER, "sites": ["Berlin"]},
        ],
    }
    browser.open("directory")
    browser.click("[data-focus=import]")
    browser.expected = ("/api/v1/directory",)
    browser.write("#field-document", '{"sites": [')
    browser.click("dialog button.primary")
    browser.one("dialog .notice.bad", "not JSON")
    browser.write("#field-document", json.dumps(document))
    browser.click("dialog button.primary", "Look")
    browser.one("#changes", "machine BETA: created")
    assert "BETA" not in json.dumps(call(house, "GET", "/directory"))  # a dry run
    browser.click("dialog button.primary", "Change 8 objects")
    browser.wait(lambda: not browser.all("dialog"))
    browser.sees("BETA")
    browser.one("svg.picture", "cost 7")
    browser.one("svg.picture", "cost 1")  # which the document leaves out
    assert browser.faults() == []
    browser.click("[data-focus=refresh]")
    browser.sees("It is read again.")
    browser.click("[data-focus=route]")
    browser.write("#field-source", "GAMMA")
    browser.write("#field-target", "BETA")
    browser.click("dialog button.primary")
    browser.one("#route", "BETA")
    browser.click("dialog button", "Close")
    browser.click("[data-focus=find]")
    browser.write("#field-machine", "BETA")
    browser.click("dialog button.primary")
    browser.one("#found-queues", "<b>bills</b>")
    assert browser.faults() == []
    browser.click("dialog button", "Close")
    browser.click("[data-focus=place]")
    browser.write("#field-queue", "BETA\\bills")
    browser.click("dialog button.primary")
    browser.one("#place", "BETA")
    browser.click("dialog button", "Close")
    browser.click("[data-focus=enter-user]")
    browser.write("#field-user", "S-1-5-21-1-2-3-1001")
    browser.write("#field-name", "gina")
    browser.click("dialog button.primary")
    browser.one("#changes", "gina: created")
    browser.click("dialog button", "Close")
    browser.click("[data-focus='remove machine GAMMA']")
    browser.one("dialog", "machine GAMMA: deleted")
    assert "GAMMA" in json.dumps(call(house, "GET", "/directory"))
    browser.confirm()
    browser.wait(lambda: "GAMMA" not in json.dumps(call(house, "GET", "/directory")))
    assert browser.script("return window.hit") is None
    browser.size(375)
    assert browser.overflow() <= 0
    call(house, "POST", "/directory", {"document": {}, "prune": True})


@pytest.mark.visits("list_refused", "explain_message")
def test_a_refused_message_is_on_the_page_of_transfer_with_its_cause(
    browser: Browser, house: House
) -> None:
    url = f"http://{house.http}/msmq/private$/nowhere"
    label = "<b>order 4711</b>"
    later = {"expires": "20380119T031407"}
    sent = envelope(
        path(f"MSMQ:{escape(label)}", to=url), properties(**later), msmq(TTrq=later["expires"])
    )
    host, _, port = house.http.rpartition(":")
    line = HTTPConnection(host, int(port), timeout=20)
    line.request("POST", "/msmq/private$/nowhere", sent, {"Content-Type": "text/xml"})
    assert line.getresponse().status == 400
    line.close()
    browser.open("transfer")
    browser.sees(label)
    browser.sees("there is no queue")
    browser.click("main td a", "Life")
    browser.sees("refused here at")
    assert browser.faults() == []
