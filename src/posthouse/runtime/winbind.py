"""Verifies NTLM logins with a domain controller through winbind (`libwbclient`).

A machine that is joined to a domain with samba runs `winbindd`, which keeps a protected channel to
a domain controller. It is asked with the two halves of an NTLM exchange, and answers with the key
of the session and the SIDs of the user, all out of one answer of the domain controller. Every call
here blocks; `winbind_logins` makes them in threads.

By hand with ctypes: the library has no binding on the package index. The structures are those of
`wbclient.h`, version 0.12 or later; their form has not changed since.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_uint8, c_uint16, c_uint32, c_uint64
from typing import Any, Final

from posthouse.rpc.domain_logins import (
    DomainAway,
    DomainNames,
    DomainProof,
    DomainQuestion,
    DomainRefused,
)
from posthouse.rpc.ntlm.keys import CHALLENGE_SIZE, KEY_SIZE
from posthouse.rpc.pac import GROUPS_MAX, DomainUser, is_of_domain
from posthouse.security.sids import make_sid

LIBRARY: Final = "libwbclient.so.0"
_RESPONSE_LEVEL: Final = 3  # WBC_AUTH_USER_LEVEL_RESPONSE
_MACHINES_TOO: Final = 0x0820  # accounts of computers: services of Windows log in as those
_NOT_AVAILABLE: Final = 6  # WBC_ERR_WINBIND_NOT_AVAILABLE
_AUTH_ERROR: Final = 10  # WBC_ERR_AUTH_ERROR
_GUEST: Final = 0x1
_ENABLED: Final = 0x4  # SE_GROUP_ENABLED
_SUB_AUTHORITIES_MAX: Final = 15


class WinbindMissing(Exception):
    """The library is not installed."""


class _Response(ctypes.Structure):
    _fields_ = (
        ("challenge", c_uint8 * CHALLENGE_SIZE),
        ("nt_length", c_uint32),
        ("nt_data", c_char_p),
        ("lm_length", c_uint32),
        ("lm_data", c_char_p),
    )


class _Parameters(ctypes.Structure):
    _fields_ = (
        ("account_name", c_char_p),
        ("domain_name", c_char_p),
        ("workstation_name", c_char_p),
        ("flags", c_uint32),
        ("parameter_control", c_uint32),
        ("level", c_uint32),
        ("response", _Response),  # of a union, whose largest member it is
    )


class _Sid(ctypes.Structure):
    _fields_ = (
        ("revision", c_uint8),
        ("count", c_uint8),
        ("authority", c_uint8 * 6),
        ("sub_authorities", c_uint32 * _SUB_AUTHORITIES_MAX),
        ("attributes", c_uint32),  # of wbcSidWithAttr
    )


class _Info(ctypes.Structure):
    _fields_ = (
        ("user_flags", c_uint32),
        ("account_name", c_char_p),
        ("user_principal", c_char_p),
        ("full_name", c_char_p),
        ("domain_name", c_char_p),
        ("dns_domain_name", c_char_p),
        ("acct_flags", c_uint32),
        ("user_session_key", c_uint8 * KEY_SIZE),
        ("lm_session_key", c_uint8 * 8),
        ("logon_count", c_uint16),
        ("bad_password_count", c_uint16),
        ("times", c_uint64 * 6),
        ("texts", c_char_p * 5),
        ("num_sids", c_uint32),
        ("sids", POINTER(_Sid)),
    )


class _Error(ctypes.Structure):
    _fields_ = (
        ("nt_status", c_uint32),
        ("nt_string", c_char_p),
        ("pam_error", c_int32),
        ("display_string", c_char_p),
        ("authoritative", c_uint8),
    )


class _Details(ctypes.Structure):
    _fields_ = (
        ("interface_version", c_uint32),
        ("winbind_version", c_char_p),
        ("separator", c_char),
        ("netbios_name", c_char_p),
        ("netbios_domain", c_char_p),
        ("dns_domain", c_char_p),
    )


def load_library() -> Any:
    """The library of the system; raises WinbindMissing."""
    try:
        library = ctypes.CDLL(LIBRARY)
        library.wbcCtxCreate.restype = ctypes.c_void_p
        library.wbcCtxFree.argtypes = (ctypes.c_void_p,)
        library.wbcFreeMemory.argtypes = (ctypes.c_void_p,)
        library.wbcCtxInterfaceDetails.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        library.wbcCtxAuthenticateUserEx.argtypes = (ctypes.c_void_p,) * 4
    except (OSError, AttributeError) as error:
        raise WinbindMissing(
            f"[rpc] winbind needs {LIBRARY} of samba (Debian: apt install winbind): {error}"
        ) from None
    return library


class Winbind:
    """One connection to winbind, of one thread."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._context = library.wbcCtxCreate()
        if not self._context:
            raise DomainAway("winbind: no memory")

    def close(self) -> None:
        """Ends the connection."""
        context, self._context = self._context, None
        if context:
            self._library.wbcCtxFree(context)

    def names(self) -> DomainNames:
        """The names that the domain has for this machine and itself."""
        found = POINTER(_Details)()
        self._check(self._library.wbcCtxInterfaceDetails(self._context, byref(found)))
        try:
            details = found.contents
            texts = (details.netbios_name, details.netbios_domain, details.dns_domain)
            return DomainNames(*map(_text, texts))
        finally:
            self._library.wbcFreeMemory(found)

    def authenticate(self, question: DomainQuestion) -> DomainProof:
        """Has a domain controller verify a login; raises DomainRefused, DomainAway."""
        parameters = _parameters(question)
        info, error = POINTER(_Info)(), POINTER(_Error)()
        status = self._library.wbcCtxAuthenticateUserEx(
            self._context, byref(parameters), byref(info), byref(error)
        )
        try:
            if status == _AUTH_ERROR:
                raise DomainRefused(_reason(error))
            self._check(status)
            return _proof(info.contents)
        finally:
            for one in (info, error):
                if one:
                    self._library.wbcFreeMemory(one)

    def _check(self, status: int) -> None:
        if status == _NOT_AVAILABLE:
            raise DomainAway("winbind does not run, or may not be asked by this user")
        if status:
            raise DomainAway(f"winbind cannot answer (error {status})")


def _parameters(question: DomainQuestion) -> _Parameters:
    response = _Response(
        (c_uint8 * CHALLENGE_SIZE)(*question.challenge), len(question.response), question.response
    )
    texts = (question.user, question.domain, question.workstation)
    octets = [text.encode("utf-8", "replace") for text in texts]
    if any(b"\0" in one for one in octets):
        raise DomainRefused("a name that is not one")
    return _Parameters(*octets, 0, _MACHINES_TOO, _RESPONSE_LEVEL, response)


def _reason(error: Any) -> str:
    """The status that the domain controller gave, in its own words."""
    if not error:
        return "the domain refuses it"
    return f"the domain refuses it: {_text(error.contents.nt_string) or 'no reason'}"


def _proof(info: _Info) -> DomainProof:
    if info.user_flags & _GUEST or not 0 < info.num_sids <= GROUPS_MAX:
        raise DomainRefused("the domain takes it for a guest, or gives no SID")
    key = bytes(info.user_session_key)
    if not any(key):
        raise DomainRefused("the domain gives no key of the session")
    sids = [info.sids[at] for at in range(info.num_sids)]
    own, groups = _sid(sids[0]), [_sid(one) for one in sids[1:] if one.attributes & _ENABLED]
    if not is_of_domain(own):
        raise DomainRefused("a user who is not of a domain")
    kept = tuple(dict.fromkeys(filter(is_of_domain, groups)))
    name, domain = _text(info.account_name), _text(info.domain_name)
    return DomainProof(DomainUser(name, domain, own, kept), key)


def _sid(found: _Sid) -> bytes:
    if found.revision != 1 or found.count > _SUB_AUTHORITIES_MAX:
        raise DomainRefused("an invalid SID")
    parts = found.sub_authorities[: found.count]
    return make_sid(int.from_bytes(bytes(found.authority), "big"), *parts)


def _text(octets: bytes | None) -> str:
    return (octets or b"").decode("utf-8", "replace")
