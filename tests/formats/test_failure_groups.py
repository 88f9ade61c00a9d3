"""Why messages failed: exception, first own frame, and keys that stay the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats import decode
from posthouse.formats.encode import nservicebus_headers, rebus_headers
from posthouse.formats.failures import KEY, Failure, failure_of, own_frame, pattern

STACK = """System.InvalidOperationException: no stock
   at System.Linq.ThrowHelper.ThrowNoElementsException()
   at Shop.Stock.Take(Int32 count) in C:\\src\\Stock.cs:line 12
   at NServiceBus.Pipeline.Invoke(Object message)"""


def nservicebus(**fields: str) -> bytes:
    return nservicebus_headers(
        {f"NServiceBus.{name.replace('_', '.')}": text for name, text in fields.items()}
    )


def test_the_failure_of_a_message_of_nservicebus() -> None:
    extension = nservicebus(
        FailedQ="orders@WEB01",
        ExceptionInfo_ExceptionType="System.InvalidOperationException",
        ExceptionInfo_Message="no stock",
        ExceptionInfo_StackTrace=STACK,
        TimeOfFailure="2026-11-17 10:11:12:131415 Z",
    )
    failure = failure_of(decode(b"{}", extension=extension))
    assert failure == Failure(
        "System.InvalidOperationException",
        "no stock",
        "Shop.Stock.Take(Int32 count)",
        "2026-11-17T10:11:12.131415Z",
    )


def test_the_failure_of_a_message_of_rebus() -> None:
    details = "1 unhandled exceptions: 11/17/2026: System.TimeoutException: too late\r\n   at A.B()"
    extension = rebus_headers({"rbs2-msg-id": "1", "rbs2-error-details": details})
    failure = failure_of(decode(b"{}", extension=extension))
    assert failure[:3] == ("System.TimeoutException", "too late", "A.B()")


def test_a_message_without_an_exception() -> None:
    assert failure_of(decode(b"<string>x</string>")) == Failure()


@pytest.mark.parametrize(
    ("stack", "frame"),
    [
        ("", ""),
        ("no frame here", ""),
        ("   at System.A.B()\n   at System.C.D(Int32 x) in x.cs:line 1", "System.A.B()"),
        (
            "   bei Laden.Kasse.Zahle(Decimal x) in C:\\K.cs:Zeile 3.",
            "Laden.Kasse.Zahle(Decimal x)",
        ),
        ("   à Magasin.Caisse.Payer() dans C:\\q\\K.cs:ligne 3", "Magasin.Caisse.Payer()"),
        ("  at Shop.Pay.<Go>d__5.MoveNext () [0x0001] in <abc>:0", "Shop.Pay.<Go>d__5.MoveNext ()"),
        ("   at Shop.Native in x.so", "Shop.Native"),
    ],
)
def test_the_first_frame_of_the_own_code(stack: str, frame: str) -> None:
    assert own_frame(stack) == frame


def test_keys_are_the_same_for_ever() -> None:
    failure = Failure("System.Exception", "order 7 failed", "A.B()", "2026-11-17T00:00:00Z")
    assert failure.key() == "d5cd194421cc"
    assert failure.key() == failure._replace(time="").key()
    for other in (failure._replace(type="X"), failure._replace(message="order 8 failed")):
        assert other.key() != failure.key()
    assert failure._replace(frame="A.C()").key() != failure.key()
    assert failure.key("nack-purged") != failure.key()


def test_similar_messages_differ_in_numbers_and_guids_only() -> None:
    one = Failure("E", "order 7 of 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11 failed")
    other = Failure("E", "order 19 of 00000000-7d0c-4f5e-9a51-0f5a4e6c2b11 failed")
    assert one.key() != other.key()
    assert one.key(similar=True) == other.key(similar=True) != one.key()
    assert one.key(similar=True).startswith("s")
    assert pattern("SHA256 of x1 and 0af3: 12") == "SHA256 of x1 and #: #"


@given(st.text(), st.text(), st.text())
def test_any_failure_has_a_key(kind: str, message: str, stack: str) -> None:
    failure = Failure(kind, message, own_frame(stack))
    for similar in (False, True):
        assert re.fullmatch(KEY, failure.key(similar=similar))
