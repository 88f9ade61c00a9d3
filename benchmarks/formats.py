"""`formats`: messages of each format that one core decodes in a second."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.figures import Column, Goal, Outcome, Row, Table, tenths, thousands
from benchmarks.meters import Stopwatch
from benchmarks.run import Run
from posthouse.formats import Decoded, decode
from posthouse.formats.encode import (
    activex_body,
    nservicebus_headers,
    rebus_headers,
    wcf_text_body,
    xml_body,
)

NAME = "formats"
COLUMNS = [
    Column("format", "message"),
    Column("bytes", "bytes", thousands),
    Column("rate", "decoded/s", thousands),
    Column("cpu_us", "CPU µs each", tenths),
]
ORDER = {
    "@No": 10248,
    "Customer": {"Name": "José & Søns", "Phone": "+34 600 000", "City": "Zürich"},
    "Lines": {
        "Line": [
            {"@sku": f"A-{number}", "Name": f"Tea {number}", "Quantity": number, "Price": "12.50"}
            for number in range(6)
        ]
    },
    "Total": "1234.50",
    "Due": "2024-02-29T23:59:58.123Z",
}
HEADERS = {f"NServiceBus.Header{number}": f"value of it {number}" for number in range(12)} | {
    "NServiceBus.EnclosedMessageTypes": "Acme.Shop.OrderPlaced, Acme.Shop, Version=2.1.0.0"
}
JSON = b'{"OrderId":17,"Customer":"Ada","Lines":[{"Sku":"A-1","Quantity":2,"Price":9.95}]}'
ENVELOPE = (
    '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
    'xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header><a:Action>urn:a</a:Action></s:Header>'
    '<s:Body><Submit xmlns="urn:b"><reference>R-77</reference></Submit></s:Body></s:Envelope>'
)
# Written by .NET: a list of two strings, a struct, and a datagram of netMsmqBinding.
STRINGS = b64decode(
    "AAEAAAD/////AQAAAAAAAAAEAQAAAH9TeXN0ZW0uQ29sbGVjdGlvbnMuR2VuZXJpYy5MaXN0YDFbW1N5c3Rl"
    "bS5TdHJpbmcsIG1zY29ybGliLCBWZXJzaW9uPTQuMC4wLjAsIEN1bHR1cmU9bmV1dHJhbCwgUHVibGljS2V5"
    "VG9rZW49Yjc3YTVjNTYxOTM0ZTA4OV1dAwAAAAZfaXRlbXMFX3NpemUIX3ZlcnNpb24GAAAICAkCAAAAAgAA"
    "AAIAAAARAgAAAAQAAAAGAwAAAAF4BgQAAAABeQ0CCw=="
)
MONEY = b64decode(
    "AAEAAAD/////AQAAAAAAAAAMAgAAAEBBY21lLlNob3AsIFZlcnNpb249Mi4xLjAuMCwgQ3VsdHVyZT1uZXV0"
    "cmFsLCBQdWJsaWNLZXlUb2tlbj1udWxsBQEAAAAPQWNtZS5TaG9wLk1vbmV5AgAAAAZBbW91bnQIQ3VycmVu"
    "Y3kAAQUCAAAABTEyLjMwBgMAAAADVVNECw=="
)
BINARY_ENVELOPE = b64decode(
    "AAEAAQQCIG5ldC5tc21xOi8vc2hvcDAxL3ByaXZhdGUvb3JkZXJzAwdWAgsBcwQLAWEGVghECh4AgpkiaHR0"
    "cDovL2FjbWUuZXhhbXBsZS9JT3JkZXJzL1N1Ym1pdEQMHgCCmSBuZXQubXNtcTovL3Nob3AwMS9wcml2YXRl"
    "L29yZGVycwFWDkAGU3VibWl0CBRodHRwOi8vYWNtZS5leGFtcGxlL0AJcmVmZXJlbmNlmQRSLTc3AQEB"
)
XML_CLASS, XML_STRING = "XML, a class of 1 KiB", "XML, a string of 1 KiB"
NRBF_SMALL = "BinaryFormatter, a struct"
MESSAGES: dict[str, tuple[bytes, dict[str, Any]]] = {
    XML_CLASS: (xml_body(ORDER, root="Order"), {}),
    XML_STRING: (xml_body("x" * 1000), {}),
    NRBF_SMALL: (MONEY, {"body_type": 768}),
    "BinaryFormatter, a list": (STRINGS, {"body_type": 768}),
    "WCF, text": (wcf_text_body(ENVELOPE, "net.msmq://a/b"), {"body_type": 0x1011}),
    "WCF, binary": (BINARY_ENVELOPE, {"body_type": 0x1011}),
    "NServiceBus, JSON": (JSON, {"extension": nservicebus_headers(HEADERS)}),
    "Rebus, JSON": (JSON, {"extension": rebus_headers({"rbs2-msg-id": "1", **HEADERS})}),
    "JSON": (JSON, {}),
    "ActiveX, an int": (activex_body(42, "int")[0], {"body_type": 3}),
    "text": (b"plain text " * 90, {}),
    "bytes": (bytes(range(256)) * 4, {}),
}


def measure(run: Run) -> Outcome:
    """Each message again and again, on one core."""
    count = run.dose(5_000, 200)
    costs: dict[str, list[float]] = {name: [] for name in MESSAGES}
    with run.bar(NAME, run.rounds) as bar:
        for number in range(run.rounds):
            bar.step(f"round {number + 1}")
            for name, (body, more) in MESSAGES.items():
                costs[name].append(_cost(lambda body=body, more=more: decode(body, **more), count))  # type: ignore[misc]
    table = Table(NAME, "rates", "formats: decoding, one core", COLUMNS)
    table.rows = [_row(name, median(costs[name])) for name in MESSAGES]
    return Outcome([table], _goals({name: 1e6 / median(cost) for name, cost in costs.items()}))


def _cost(decoding: Callable[[], Decoded], count: int) -> float:
    assert decoding().error is None
    with Stopwatch() as watch:
        for _ in range(count):
            decoding()
    return watch.cpu_s / count * 1e6


def _row(name: str, cost: float) -> Row:
    body, more = MESSAGES[name]
    size = len(body) + len(more.get("extension", b""))
    return {"format": name, "bytes": size, "rate": 1e6 / cost, "cpu_us": cost}


def _goals(rates: dict[str, float]) -> list[Goal]:
    goals = {XML_CLASS: (10_000, 50_000), XML_STRING: (50_000, None), NRBF_SMALL: (20_000, None)}
    return [
        Goal(NAME, f"{name}: decoded in a second", rates[name], required, aim, unit="/s")
        for name, (required, aim) in goals.items()
    ]
