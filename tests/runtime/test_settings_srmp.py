"""The sections for messages over HTTP."""

from __future__ import annotations

import pytest

from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.runtime.settings.file import SettingsError, parse_settings
from posthouse.runtime.settings.settings import Settings

WHOLE = b"""
[srmp]
forwarding = true
retransmission_ms = 100
resend_short_ms = 1
resend_final_ms = 4
receipt_ms = 7
receive_ahead = "1MiB"
proxy = "http://proxy.lan:3128"
proxy_bypass = [".LAN"]
reverse_proxies = ["10.0.0.7"]

[srmp.redirect]
outbound = { "http://a/*" = "http://b:8080" }
outbound_exceptions = ["http://a/msmq/x"]
inbound = { "http://front/*" = "http://us/*" }
receipt_urls = { "http://a/*" = "http://front/msmq/private$/order_queue$" }
default_receipt_url = "http://front/msmq/q"
"""


@pytest.mark.spec("MC-MQSRM 3.1.2/1")
def test_nothing_set_is_the_protocols_own_default() -> None:
    made = Settings().srmp
    assert made == SrmpSettings()
    assert (made.receipt_ms, made.receipt_max_ms) == (500, 10_000)
    assert made.proxy_address is None


@pytest.mark.spec("MC-MQSRM 3.1.2/1", "MC-MQSRM 3.1.1.1.7/1", "MC-MQSRM 3.1.1.1.8/1")
def test_what_is_set_gets_there() -> None:
    made = parse_settings(WHOLE).srmp
    assert made.retransmission_ms == 100
    medium, long = (300_000,) * 3, (1_800_000,) * 3
    assert made.resend_ms == (1, 1, 1, *medium, *long, 4)
    assert made.receive_ahead == 1 << 20
    assert made.proxy_address == ("proxy.lan", 3128)
    assert made.proxy_bypass == (".LAN",)
    assert made.reverse_proxies == ("10.0.0.7",)
    assert made.forwarding
    assert made.receipt_ms == 7
    assert made.redirect.outbound == {"http://a/*": "http://b:8080"}
    assert made.redirect.outbound_exceptions == ("http://a/msmq/x",)
    assert made.redirect.inbound == {"http://front/*": "http://us/*"}
    url = "http://front/msmq/private$/order_queue$"
    assert made.redirect.receipt_urls == {"http://a/*": url}
    assert made.redirect.default_receipt_url == "http://front/msmq/q"


def test_a_proxy_has_a_usual_port() -> None:
    assert SrmpSettings(proxy="http://proxy").proxy_address == ("proxy", 8080)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[https]\ncertificate = "a"', "go together"),
        ('[https]\nclient_verification = "required"', "client_authorities"),
        ('[https]\nclient_verification = "often"', "optional"),
        ('[srmp]\nclient_key = "a"', "go together"),
        ('[srmp]\nproxy = "proxy"', "not a URL"),
        ('[srmp]\nproxy = "https://proxy:1"', "not a URL"),
        ("[srmp]\nretransmission_max_ms = 1", "retransmission_ms"),
        ("[srmp]\nreceipt_max_ms = 1", "receipt_ms"),
        ('[srmp.redirect]\noutbound = { "a" = "http://b" }', "not a URL"),
        ('[srmp.redirect]\ninbound = { "http://a" = "b" }', "not a URL"),
        ('[srmp.redirect]\ndefault_receipt_url = "b"', "not a URL"),
        ("[srmp.redirect]\noutbond = {}", "outbound"),
        ("[srmp]\nredirect = 1", "section"),
        ("[srmp]\nidel_ms = 1", "idle_ms"),
    ],
)
def test_what_will_not_do_is_told(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode())
    assert words in str(caught.value)
