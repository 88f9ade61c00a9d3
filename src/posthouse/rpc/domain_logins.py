"""NTLM logins of domain users: the request to a domain controller, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.rpc.pac import DomainUser


class DomainAway(Exception):
    """Nothing can be verified now: why."""


class DomainRefused(Exception):
    """The domain does not take this login: why, for the log."""


class DomainNames(NamedTuple):
    """What the domain calls this machine, and itself."""

    computer: str
    domain: str
    dns_domain: str


class DomainQuestion(NamedTuple):
    """An NTLM login: the challenge of the server, and the client's response to it."""

    user: str
    domain: str
    workstation: str
    challenge: bytes
    response: bytes

    def __repr__(self) -> str:
        """Without the response, by which passwords can be guessed."""
        return f"DomainQuestion({self.user!r}, {self.domain!r})"


class DomainProof(NamedTuple):
    """The login was right: who that is, and the key that both ends have now."""

    user: DomainUser
    session_key: bytes

    def __repr__(self) -> str:
        """Without the key."""
        return f"DomainProof({self.user.name!r})"


class DomainVerdict(NamedTuple):
    """What became of a login: a proof, or why there is none."""

    proof: DomainProof | None
    reason: str = ""


Answered = Callable[[DomainVerdict], None]


class DomainLogins(Protocol):
    """What has logins verified; posthouse.runtime.winbind_logins does."""

    @property
    def names(self) -> DomainNames | None:
        """What the domain calls this machine and itself, as soon as that was asked."""
        ...

    def start(self) -> None:
        """Asks for the names, so that the first client is given the right ones."""
        ...

    def ask(self, question: DomainQuestion, address: str, answered: Answered) -> None:
        """Has a login verified; `answered` is called in a later turn of the loop."""
        ...

    def look_at_trouble(self) -> str:
        """Why users of the domain cannot log in; empty where they can."""
        ...

    def close(self) -> None:
        """Nothing more is asked."""
        ...
