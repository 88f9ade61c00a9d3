"""A browser at the console's door, without the browser."""

from __future__ import annotations

from typing import Any

from tests.protocols.admin.api_rig import ApiRig, Reply

SESSION = "/console/session"
STATUS = "/api/v1/status"


class Visitor:
    """A browser with its cookie and its page key, and nothing else."""

    def __init__(self, rig: ApiRig) -> None:
        self.rig = rig
        self.host = rig.url.removeprefix("http://")
        self.cookie = self.page_key = ""

    def headers(self, **more: str | None) -> dict[str, str]:
        """What the console's own pages send; `more` replaces some of it, or leaves it out."""
        given: dict[str, str | None] = {
            "Origin": f"http://{self.host}",
            "Sec-Fetch-Site": "same-origin",
            "Cookie": self.cookie or None,
            "X-Posthouse-Page-Key": self.page_key or None,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return {name: value for name, value in given.items() if value is not None}

    async def sign_in(self, body: Any = None, **more: str | None) -> Reply:
        body = {"token": self.rig.tokens["administer"]} if body is None else body
        headers = self.headers(**more)
        reply = await self.rig.post(SESSION, body, token=None, headers=headers)
        if reply.status == 200:
            self.page_key = reply.json["page_key"]
            self.cookie = reply.headers["Set-Cookie"].partition(";")[0]
        return reply

    async def ask(self, method: str, path: str, body: Any = None, **more: str | None) -> Reply:
        headers = self.headers(**more)
        return await self.rig.ask(method, path, body, token=None, headers=headers)

    async def is_in(self) -> bool:
        return (await self.ask("GET", STATUS)).status == 200
