"""SRMP messages as HTTP requests."""

from __future__ import annotations

ENVELOPE = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:label</action><to>{to}</to><id>uuid:{number}@{guid}</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20231114T221320</sentAt></properties>"
    '<services se:mustUnderstand="1"><durable/></services>'
    '<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>3</Priority>'
    "<BodyType>0</BodyType><SourceQmGuid>{guid}</SourceQmGuid><TTrq>20380119T031407</TTrq></Msmq>"
    "</se:Header><se:Body></se:Body></se:Envelope>"
)


GUID = "11111111-2222-3333-4444-555555555555"


TO = "http://10.0.0.1/msmq/private$/q"


def post(number: int = 1, to: str = TO, *more: str, target: str = "/msmq/private$/q") -> bytes:
    """A request with a message."""
    payload = ENVELOPE.format(to=to, number=number, guid=GUID)
    lines = [f"POST {target} HTTP/1.1", "Host: 10.0.0.1", "Content-Type: text/xml", *more]
    return "\r\n".join([*lines, f"Content-Length: {len(payload)}", "", payload]).encode()
