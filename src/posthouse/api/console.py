"""The types of the console's own paths: sign-in and sessions (docs/console.md)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class SignInBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who signs in: a token, or a user with the door `http` and the password."""

    token: Annotated[str, Meta(max_length=256)] = ""
    user: Annotated[str, Meta(max_length=64)] = ""
    password: Annotated[str, Meta(max_length=1024)] = ""


class SessionJson(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A session of the console. `page_key` is in the answer to the sign-in and nowhere else.

    `name` is the queue manager's; `administrator` is whether the session sees all of it, which a
    token that is limited to some queues does not; `idle_s` is how long the session lasts
    without an act.
    """

    name: str
    version: str
    user: str
    role: str
    administrator: bool
    idle_s: int
    page_key: str = ""
