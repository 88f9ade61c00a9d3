"""What tests of the console do with their queue manager."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import posthouse

if TYPE_CHECKING:
    from tests.console.conftest import House

CONSOLE = Path(__file__).parents[2] / "src" / "posthouse" / "console"
HOSTILE = """<img src=x onerror="window.hit=1"><script>window.hit=1</script>"'&lt;${7*7}{{7*7}}"""


def call(house: House, method: str, path: str, body: Any = None) -> Any:
    """A call of the API, as the administrator."""
    with posthouse.connect(house.home) as manager:
        return manager.call(method, path, body)


def made(house: House, name: str, **properties: Any) -> str:
    """A new queue; its path."""
    path = f".\\private$\\{name}"
    return str(call(house, "POST", "/queues", {"path": path, **properties})["path"])


def at(path: str) -> str:
    """The path of a queue in the API."""
    return f"/queues/{quote(path, safe='')}"


def send(house: House, path: str, **message: Any) -> str:
    """A message; its identifier."""
    return str(call(house, "POST", f"{at(path)}/messages", message)["id"])


def labels(house: House, path: str) -> list[str]:
    """The labels of the messages of a queue."""
    return [one["label"] for one in call(house, "GET", f"{at(path)}/messages")["messages"]]


def ids(house: House, path: str) -> list[int]:
    """The lookup ids of the messages of a queue."""
    return [one["lookup_id"] for one in call(house, "GET", f"{at(path)}/messages")["messages"]]


def page(name: str, *path: object, **query: str) -> str:
    """The address of a page, as `Browser.open` takes it."""
    words = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
    parts = "/".join([name, *(quote(str(one), safe="") for one in path)])
    return f"{parts}?{words}" if words else parts
