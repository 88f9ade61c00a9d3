"""A body of an error queue, as NServiceBus leaves it."""

from __future__ import annotations

from base64 import b64encode

from posthouse.formats.encode import nservicebus_headers

STACK = "System.Exception: x\n   at System.Throw()\n   at Shop.{0}.Run(Int32 x) in C:\\a.cs:line 3"


def failed(queue: str = "orders@ALPHA", cause: str = "no stock", frame: str = "Stock") -> str:
    """The extension of a message in an error queue of NServiceBus, as the API takes it."""
    headers = {
        "NServiceBus.MessageId": "1",
        "NServiceBus.EnclosedMessageTypes": "Shop.OrderPlaced, Shop",
        "NServiceBus.FailedQ": queue,
        "NServiceBus.ExceptionInfo.ExceptionType": "System.InvalidOperationException",
        "NServiceBus.ExceptionInfo.Message": cause,
        "NServiceBus.ExceptionInfo.StackTrace": STACK.format(frame),
        "NServiceBus.TimeOfFailure": "2026-11-17 10:11:12:131415 Z",
    }
    return b64encode(nservicebus_headers(headers)).decode()
