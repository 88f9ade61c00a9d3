"""Debian's chromium, driven by selenium: one for each worker, without anything from the network."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver
    from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
WAIT_S = 30.0  # for what comes at once on a machine that has nothing else to do
DRIVER = "/usr/bin/chromedriver"
SERIOUS = {"serious", "critical"}


@contextmanager
def started(folder: Path) -> Iterator[WebDriver]:
    """A browser with a profile of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    os.environ["SE_OFFLINE"] = "true"
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in (
        "--headless=new",
        "--no-sandbox",  # containers and root
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--force-color-profile=srgb",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})  # requests alone
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


# In one step: a table that is drawn again while its links are looked at one by one has none.
_FIRST_SHOWN: Final = """
const [css, text] = arguments;
return [...document.querySelectorAll(css)].find(
    (one) => one.checkVisibility({checkVisibilityCSS: true})
        && (one.innerText ?? one.textContent).includes(text));
"""


class Browser:
    """A page of the console, and what a test does with it."""

    def __init__(self, driver: WebDriver, url: str) -> None:
        self.driver = driver
        self.url = url
        self.expected: tuple[str, ...] = ()  # parts of complaints that a test provokes

    # -- looking

    def wait(self, look: Callable[[], T], what: str = "") -> T:
        """The first value that is true; stale elements are looked for again."""
        from selenium.common.exceptions import TimeoutException, WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(
            self.driver, WAIT_S, poll_frequency=0.05, ignored_exceptions=[WebDriverException]
        )
        try:
            return waiting.until(lambda driver: look())
        except TimeoutException:
            raise AssertionError(f"{what}; the page shows: {self.text[:4000]}") from None

    @property
    def text(self) -> str:
        """All text that the page shows."""
        return str(self.script("return document.body.innerText"))

    def script(self, text: str, *arguments: Any) -> Any:
        """What a script returns that runs in the page."""
        return self.driver.execute_script(text, *arguments)

    def all(self, css: str) -> list[WebElement]:
        """Elements of the page."""
        return self.driver.find_elements("css selector", css)

    def one(self, css: str, text: str = "") -> WebElement:
        """The first element that is shown, with this text if there is one."""

        def look() -> WebElement | None:
            found: WebElement | None = self.script(_FIRST_SHOWN, css, text)
            return found

        found = self.wait(look, f"{css} {text}")
        assert found is not None
        return found

    def one_text(self, css: str) -> str:
        """The text of an element, shown or not."""
        return self.all(css)[0].text

    def sees(self, text: str) -> None:
        """Waits for a text."""
        self.wait(lambda: text in self.text, f"no {text!r}")

    def complaints(self) -> list[str]:
        """What the browser has written into its console since the last look."""
        lines = self.driver.get_log("browser")
        return [str(line["message"]) for line in lines if line["level"] == "SEVERE"]

    def unexpected(self) -> list[str]:
        """Complaints of the browser that the test has not provoked: errors, broken policies."""
        return [one for one in self.complaints() if not any(part in one for part in self.expected)]

    # -- acting

    def open(self, address: str = "") -> None:
        """A page of the console; `address` is what stands after `#/`."""
        self.driver.get(f"{self.url}/console/#/{address}")

    def click(self, css: str, text: str = "") -> None:
        """Clicks on what is there, once it is."""

        def act() -> bool:
            self.one(css, text).click()
            return True

        self.wait(act, f"click {css} {text}")

    def confirm(self) -> None:
        """Presses the button of the dialog, and waits until the dialog is gone."""
        self.click("dialog button[type=submit]")
        self.wait(lambda: not self.all("dialog"))

    def choose_file(self, css: str, path: Path) -> None:
        """Gives a field a file."""
        self.one(css).send_keys(str(path))

    def click_in(self, css: str, text: str, button: str) -> None:
        """Clicks a button inside the element that has this text, once it is there."""

        def act() -> bool:
            inside = self.one(css, text).find_elements("css selector", "button")
            found = next((one for one in inside if one.text == button), None)
            if found is not None:
                found.click()
            return found is not None

        self.wait(act, f"click {button} in {css} {text}")

    def write(self, css: str, text: str) -> None:
        """Writes a text into a field, in place of what is there."""
        field = self.one(css)
        self.script(
            "arguments[0].value = arguments[1];"
            "arguments[0].dispatchEvent(new Event('input', {bubbles: true}));"
            "arguments[0].dispatchEvent(new Event('change', {bubbles: true}))",
            field,
            text,
        )

    def keys(self, *keys: str) -> None:
        """Presses keys."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def sign_in(self, token: str) -> None:
        """Signs in with a token, in a browser that keeps nothing of before."""
        self.driver.get("about:blank")  # a page that asks while its session goes would complain
        words = {"origin": self.url, "storageTypes": "all"}
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", words)
        self.open()
        self.write("#token", token)
        self.click("button.primary")
        self.one("nav")

    def size(self, width: int, height: int = 900) -> None:
        """The size of the page in pixels, as a phone, a laptop or a wide screen has it."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def colours(self, scheme: str) -> None:
        """Light or dark, as the system has it."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )

    def downloads(self, folder: Path) -> None:
        """Where files go that pages give to the user."""
        words = {"behavior": "allow", "downloadPath": str(folder)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", words)

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(
            self.script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    def faults(self) -> list[str]:
        """What axe-core finds wrong and counts as serious."""
        if self.script("return typeof axe === 'undefined'"):  # half a megabyte, once for each load
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe()})
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'],"
            " resultTypes: ['violations']})"
            ".then((found) => done(JSON.stringify(found.violations)), (e) => done(String(e)))"
        )
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {[n['target'] for n in one['nodes']]}"
            for one in json.loads(found)
            if one["impact"] in SERIOUS
        ]


@cache
def axe() -> str:
    """The script of axe-core, which `make peers` installs."""
    root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=True)
    return Path(root.stdout.strip(), "axe-core", "axe.min.js").read_text()
