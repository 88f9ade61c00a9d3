"""SPNEGO, both ends (RFC 4178; [MS-SPNG] 3): which mechanism is used, proved against tampering."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

from posthouse.rpc import spnego_tokens as tokens
from posthouse.rpc.ntlm.messages import SIGNATURE as NTLM_SIGNATURE
from posthouse.rpc.security import (
    BadProtection,
    Identity,
    Level,
    LoginRefused,
    SecurityContext,
    VerdictNeeded,
)
from posthouse.rpc.spnego_tokens import Response


class Mechanism(SecurityContext, Protocol):
    """A security context that SPNEGO can use: it signs the list of mechanisms, too."""

    @property
    def has_mic(self) -> bool:
        """Whether that signature is expected even where the first choice was taken."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The mechListMIC."""
        ...

    def verify(self, message: bytes, signature: bytes) -> None:
        """Checks the other end's mechListMIC; raises BadProtection."""
        ...


Make = Callable[[], Mechanism]
"""Begins a new exchange of a mechanism."""


class SpnegoContext(ABC):
    """What both ends have in common: a mechanism inside."""

    def __init__(self, mechanisms: Mapping[bytes, Make]) -> None:
        self._mechanisms = mechanisms
        self._inner: Mechanism | None = None
        self._list = b""  # as the initiator has sent it
        self._needs_mic = False
        self._complete = False
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether mechanism and list of mechanisms are settled."""
        return self._complete

    @property
    def identity(self) -> Identity | None:
        """The caller that the mechanism has proved."""
        return self._inner.identity if self._complete and self._inner is not None else None

    @property
    def mechanism(self) -> str:
        """The mechanism inside."""
        return "" if self._inner is None else self._inner.mechanism

    def signature_size_at(self, level: Level) -> int:
        """That of the mechanism."""
        return self._settled().signature_size_at(level)

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """As the mechanism does it."""
        return self._settled().protect(level, before, body, after)

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """As the mechanism does it."""
        if not self._complete or self._inner is None:
            raise BadProtection("nothing was agreed upon")
        return self._inner.unprotect(level, before, body, after, signature)

    def _stepped(self, token: bytes) -> bytes | None:
        """Whatever is refused is over, and what was kept for it is forgotten."""
        self._over = True
        try:
            answer = self._begun(token) if self._inner is None else self._continued(token)
            self._over = self._complete
        except VerdictNeeded:
            self._over = False
            raise
        finally:
            if self._over:
                self._list = b""
        return answer

    @abstractmethod
    def _begun(self, token: bytes) -> bytes | None: ...

    @abstractmethod
    def _continued(self, token: bytes) -> bytes | None: ...

    def _settled(self) -> Mechanism:
        assert self._inner is not None
        return self._inner

    def _check_mic(self, mic: bytes) -> None:
        try:
            self._settled().verify(self._list, mic)
        except BadProtection:
            raise LoginRefused("the list of mechanisms was changed on its way") from None


class SpnegoAcceptor(SpnegoContext):
    """The end that is asked; it takes what the initiator likes best of what it has."""

    def __init__(self, mechanisms: Mapping[bytes, Make]) -> None:
        super().__init__(mechanisms)
        self._raw = False  # NTLM without SPNEGO around it, which Windows takes here as well

    def step(self, token: bytes) -> bytes | None:
        """Takes the initiator's next token. After a refusal nothing follows."""
        if self._over:
            raise LoginRefused("this exchange is over")
        return self._stepped(token)

    def _begun(self, token: bytes) -> bytes | None:
        if token.startswith(NTLM_SIGNATURE) and tokens.NTLM_OID in self._mechanisms:
            self._raw = True
            self._inner = self._mechanisms[tokens.NTLM_OID]()
            return self._inner.step(token)
        init = tokens.unpack_init(token)
        chosen = next((one for one in init.mechanisms if one in self._mechanisms), None)
        if chosen is None:
            raise LoginRefused("none of the mechanisms is to be had here")
        self._list = init.mechanism_list
        self._inner = self._mechanisms[chosen]()
        # A token for another mechanism than the one that is taken is of no use.
        self._needs_mic = chosen != init.mechanisms[0]
        answer = None
        if init.token is not None and not self._needs_mic:
            answer = self._inner.step(init.token)
        return self._answer(answer, init.mic, chosen)

    def _continued(self, token: bytes) -> bytes | None:
        inner = self._settled()
        if self._raw:
            answer = inner.step(token)
            self._complete = inner.complete
            return answer
        response = tokens.unpack_response(token)
        answer = None
        if response.token is not None and not inner.complete:
            answer = inner.step(response.token)
        return self._answer(answer, response.mic, None)

    def _answer(self, token: bytes | None, mic: bytes | None, chosen: bytes | None) -> bytes:
        inner = self._settled()
        if not inner.complete:
            state = tokens.REQUEST_MIC if self._needs_mic and chosen else tokens.ACCEPT_INCOMPLETE
            return tokens.pack_response(Response(state, chosen, token))
        own_mic = None
        if mic is not None:
            self._check_mic(mic)
            own_mic = inner.sign(self._list)
        elif self._needs_mic:
            raise LoginRefused("the list of mechanisms is not signed")
        self._complete = True
        return tokens.pack_response(Response(tokens.ACCEPT_COMPLETED, chosen, token, own_mic))


class SpnegoInitiator(SpnegoContext):
    """The end that asks; it names its mechanisms in the order in which it likes them."""

    def __init__(self, mechanisms: Mapping[bytes, Make]) -> None:
        super().__init__(mechanisms)
        self._chosen = b""
        self._answered = False
        self._mic_sent = False

    def step(self, token: bytes) -> bytes | None:
        """Nothing gives the first token; each answer the next, until all is settled."""
        if self._over:
            raise LoginRefused("this exchange is over")
        return self._stepped(token)

    def _begun(self, token: bytes) -> bytes:
        if token:
            raise LoginRefused("the server speaks first")
        names = tuple(self._mechanisms)
        self._chosen = names[0]
        self._list = tokens.pack_mechanism_list(names)
        self._inner = self._mechanisms[names[0]]()
        return tokens.pack_init(names, self._inner.step(b"") or b"")

    def _continued(self, token: bytes) -> bytes | None:
        response = tokens.unpack_response(token)
        if response.state == tokens.REJECT:
            raise LoginRefused("the server refuses this login")
        self._needs_mic |= response.state == tokens.REQUEST_MIC
        switched = self._switched(response.mechanism)
        self._answered = True
        inner = self._settled()
        answer = None
        if switched and response.token is None:
            answer = inner.step(b"")
        elif response.token is not None and not inner.complete:
            answer = inner.step(response.token)
        return self._answer(answer, response)

    def _switched(self, mechanism: bytes | None) -> bool:
        """Whether the acceptor takes another mechanism than our first choice."""
        if mechanism is None or mechanism == self._chosen:
            return False
        if mechanism not in self._mechanisms or self._answered:
            raise LoginRefused("the server takes a mechanism that was not offered")
        self._chosen = mechanism
        self._inner = self._mechanisms[mechanism]()
        self._needs_mic = True
        return True

    def _answer(self, token: bytes | None, response: Response) -> bytes | None:
        inner = self._settled()
        if not inner.complete:
            if token is None:
                raise LoginRefused("the server ends a login that has not ended")
            return tokens.pack_response(Response(token=token))
        if response.mic is not None:
            self._check_mic(response.mic)
        own_mic = self._own_mic()
        done = response.state == tokens.ACCEPT_COMPLETED
        if done and self._needs_mic and response.mic is None:
            raise LoginRefused("the list of mechanisms is not signed")
        self._complete = done
        if token is None and own_mic is None:
            return None
        return tokens.pack_response(Response(token=token, mic=own_mic))

    def _own_mic(self) -> bytes | None:
        inner = self._settled()
        if self._mic_sent or not (self._needs_mic or inner.has_mic):
            return None
        self._mic_sent = True
        return inner.sign(self._list)
