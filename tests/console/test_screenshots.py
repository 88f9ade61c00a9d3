"""Pictures of the main pages for docs/console.md: `POSTHOUSE_SCREENSHOTS=1 pytest` makes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.houses import at, call, ids, made, page, send
from tests.support.browser import Browser

if TYPE_CHECKING:
    from tests.console.conftest import House

pytestmark = pytest.mark.peer("chromium", "axe-core")
ASSETS = Path(__file__).parents[2] / "docs" / "assets"
ON_DEMAND = "POSTHOUSE_SCREENSHOTS"
ORDER = '<order id="{0}"><customer>Müller &amp; Söhne</customer><total>{0}.50</total></order>'


@pytest.mark.skipif(ON_DEMAND not in os.environ, reason=f"{ON_DEMAND}=1 makes them")
def test_pictures_of_the_main_pages(browser: Browser, house: House) -> None:
    orders = made(house, "orders", label="Orders of the shop", journal=True)
    made(house, "payments", label="Payments", transactional=True)
    returns = made(house, "returns", label="Returns of goods")
    for number in range(24):
        body = ORDER.format(1000 + number)
        send(house, orders, label=f"order {1000 + number}", body_text=body, priority=number % 4)
    for number in range(3):
        send(house, returns, label=f"return {number}", journal=["negative"])
    call(house, "POST", f"{at(returns)}/purge")
    far = "DIRECT=TCP:127.0.0.1:9\\private$\\warehouse"
    call(house, "POST", f"{at(far)}/messages", {"label": "order 1000", "delivery": "recoverable"})
    pages = {
        "console-overview": ("overview", "light", 1280),
        "console-messages": (page("messages", orders), "dark", 1280),
        "console-message": (page("messages", orders, ids(house, orders)[0]), "light", 1440),
    }
    for name, (address, scheme, width) in pages.items():
        browser.colours(scheme)
        browser.size(width, 844)
        browser.open(address)
        browser.one("main table, main pre")
        browser.wait(lambda: "Asking" not in browser.text)
        if address == "overview":
            browser.wait(lambda: "there is no listener" in browser.one_text("#health"))
            browser.wait(lambda: len(browser.all("svg.chart")) >= 4)
        browser.driver.save_screenshot(str(ASSETS / f"{name}.png"))
        assert (ASSETS / f"{name}.png").stat().st_size > 10_000
