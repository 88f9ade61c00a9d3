"""The sections for messages over HTTP."""

from __future__ import annotations

from dataclasses import fields

import pytest

from posthouse.engine.settings import EngineSettings, RedirectSettings
from posthouse.protocols.srmp.settings import SrmpSettings, resend_table
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import SettingsError, parse_settings
from posthouse.runtime.settings.settings import Settings, engine_settings
from posthouse.runtime.settings_srmp import SrmpSection
from tests.runtime.test_settings import other

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
    settings = Settings()
    assert settings.srmp.protocol() == SrmpSettings()
    engine, default = engine_settings(settings, "A", PortSet.USER), EngineSettings("A")
    assert engine.srmp_redirect == RedirectSettings()
    assert engine.srmp_receipt_ms == default.srmp_receipt_ms == 500
    assert engine.srmp_receipt_max_ms == default.srmp_receipt_max_ms == 10_000


@pytest.mark.spec("MC-MQSRM 3.1.2/1", "MC-MQSRM 3.1.1.1.7/1", "MC-MQSRM 3.1.1.1.8/1")
def test_what_is_set_gets_there() -> None:
    settings = parse_settings(WHOLE)
    made = settings.srmp.protocol()
    assert made.retransmission_ms == 100
    assert made.resend_ms == resend_table(short_ms=1, final_ms=4)
    assert made.receive_ahead_bytes == 1 << 20
    assert made.proxy == ("proxy.lan", 3128)
    assert made.proxy_bypass == (".lan",)
    assert made.reverse_proxies == ("10.0.0.7",)
    engine = engine_settings(settings, "A", PortSet.USER)
    assert engine.srmp_forwarding
    assert engine.srmp_receipt_ms == 7
    assert engine.srmp_redirect == RedirectSettings(
        outbound=(("http://a/*", "http://b:8080"),),
        outbound_exceptions=("http://a/msmq/x",),
        inbound=(("http://front/*", "http://us/*"),),
        receipt_urls=(("http://a/*", "http://front/msmq/private$/order_queue$"),),
        default_receipt_url="http://front/msmq/q",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[https]\ncertificate = "a"', "go together"),
        ('[https]\nclient_verification = "required"', "client_authorities"),
        ('[https]\nclient_verification = "often"', "optional"),
        ('[srmp]\nclient_key = "a"', "go together"),
        ('[srmp]\nproxy = "proxy"', "no URL"),
        ('[srmp]\nproxy = "https://proxy:1"', "no URL"),
        ("[srmp]\nretransmission_max_ms = 1", "retransmission_ms"),
        ("[srmp]\nreceipt_max_ms = 1", "receipt_ms"),
        ('[srmp.redirect]\noutbound = { "a" = "http://b" }', "no URL"),
        ('[srmp.redirect]\ninbound = { "http://a" = "b" }', "no URL"),
        ('[srmp.redirect]\ndefault_receipt_url = "b"', "no URL"),
        ("[srmp.redirect]\noutbond = {}", "outbound"),
        ("[srmp]\nredirect = 1", "section"),
        ("[srmp]\nidel_ms = 1", "idle_ms"),
    ],
)
def test_what_will_not_do_is_told(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode())
    assert words in str(caught.value)


def test_every_knob_of_the_protocol_can_be_turned() -> None:
    turned = {
        name: other(getattr(SrmpSection(), name))
        for name in SrmpSection.__struct_fields__
        if name != "redirect"
    }
    made = SrmpSection(**turned | {"proxy": "http://proxy"}).protocol()
    fixed = {"send_batch"}  # messages; their bytes can be set
    unturned = {
        field.name
        for field in fields(SrmpSettings)
        if getattr(made, field.name) == getattr(SrmpSettings(), field.name)
    }
    assert unturned == fixed
