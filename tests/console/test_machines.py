"""Job queues, transfer and the directory in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import posthouse
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
OTHER = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b12"
PEER = {"guid": "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11", "url": "http://127.0.0.1:9"}


def call(house: House, method: str, path: str, body: Any = None) -> Any:
    with posthouse.connect(house.home) as manager:
        return manager.call(method, path, body)


def confirmed(browser: Browser) -> None:
    """Presses the button of the dialog, and waits until it is gone."""
    browser.click("dialog button[type=submit]")
    browser.wait(lambda: not browser.all("dialog"))


@pytest.mark.visits(
    "list_job_queues", "create_job_queue", "show_job_queue", "set_job_queue", "delete_job_queue",
    "list_jobs", "list_job_history", "change_job", "place_job", "remove_job",
)  # fmt: skip
def test_jobs_are_held_moved_and_removed(browser: Browser, house: House) -> None:
    browser.open("jobs")
    browser.click("[data-focus=create-job-queue]")
    browser.write("#field-name", "REPORTS")
    browser.write("#field-users", "SUPERVISOR")
    confirmed(browser)
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
    confirmed(browser)
    browser.wait(lambda: call(house, "GET", jobs)["total"] == 1)
    browser.click("[data-focus=status]")
    browser.click("#field-no_new_jobs")
    confirmed(browser)
    browser.sees("No new jobs")
    assert browser.faults() == []
    browser.open("overview")
    browser.sees("REPORTS")
    browser.one("main h2", "Job queues")
    assert browser.faults() == []
    browser.open("jobs")
    browser.click("a", "REPORTS")
    browser.click("[data-focus=delete]")
    confirmed(browser)
    browser.sees("There is no job queue.")


@pytest.mark.visits(
    "take_offline", "bring_online", "list_peers", "remove_peer", "pause_queue", "resume_queue"
)
def test_transfer_shows_where_messages_go(browser: Browser, house: House) -> None:
    far = "DIRECT=TCP:127.0.0.1:9\\private$\\<i>away</i>"
    with posthouse.connect(house.home) as manager:
        manager.queue(far).send(b"x", recoverable=True)
    call(house, "POST", "/peers", {"name": "BETA", **PEER})
    browser.open("transfer")
    browser.sees("<i>away</i>")
    path = next(
        one["path"] or one["format_name"]
        for one in call(house, "GET", "/queues?outgoing=true")["queues"]
        if "away" in one["format_name"]
    )
    browser.click("button", "Pause")
    browser.one(".badge.warn", "paused")
    browser.click("button", "Resume")
    browser.wait(lambda: not browser.all(".badge.warn"))
    browser.click("[data-focus=online]")
    confirmed(browser)
    browser.one(".badge.warn", "offline")
    browser.click("[data-focus=online]")
    confirmed(browser)
    browser.one(".badge.ok", "online")
    browser.click("[data-focus='peer BETA']")
    confirmed(browser)
    browser.sees("No other queue manager takes part")
    assert browser.faults() == []
    call(house, "POST", f"/queues/{quote(path, safe='')}/purge")


@pytest.mark.visits("show_directory", "refresh_directory", "show_route")
def test_the_directory_is_shown_and_asked_for_a_route(browser: Browser, house: House) -> None:
    document = {
        "sites": [{"name": "Berlin"}],
        "machines": [
            {"name": "BETA", "guid": PEER["guid"], "sites": ["Berlin"]},
            {"name": "GAMMA", "guid": OTHER, "sites": ["Berlin"]},
        ],
    }
    call(house, "POST", "/directory", {"document": document})
    browser.open("directory")
    browser.sees("BETA")
    browser.sees("Berlin")
    assert browser.faults() == []
    browser.click("[data-focus=refresh]")
    browser.sees("It is read again.")
    browser.click("[data-focus=route]")
    browser.write("#field-source", "GAMMA")
    browser.write("#field-target", "BETA")
    browser.click("dialog button.primary")
    browser.one("#route", "BETA")
    browser.click("dialog button", "Close")
