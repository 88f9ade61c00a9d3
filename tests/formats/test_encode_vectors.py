"""Encoders write the bytes that .NET wrote, for every vector that asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.formats.encode import (
    activex_body,
    nservicebus_headers,
    rebus_headers,
    wcf_text_body,
    xml_body,
)
from tests.support.format_vectors import MANIFEST, read

ENCODED = [vector for vector in MANIFEST if "encode" in vector]


@pytest.mark.parametrize("vector", ENCODED, ids=lambda vector: vector["name"])
def test_same_bytes(vector: dict[str, Any]) -> None:
    expect, how = vector["expect"], vector["encode"]
    body, extension = read(vector["body"]), read(vector["extension"])
    match how["formatter"]:
        case "xml":
            assert xml_body(expect["value"], root=expect["root"], style=how["style"]) == body
        case "activex":
            kind = vector["body_type"]
            assert activex_body(expect["value"], expect["vt"], how["style"]) == (body, kind)
        case "nservicebus":
            assert nservicebus_headers(expect["headers"]) == extension
        case "rebus":
            assert rebus_headers(expect["headers"]) == extension
        case "wcf":
            xml = expect["envelopes"][0]["xml"]
            assert wcf_text_body(xml, expect["via"], expect["encoding"]) == body
        case other:
            pytest.fail(f"no encoder is tried for {other}")
