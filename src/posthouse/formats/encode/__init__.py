"""Bodies and headers as .NET programs write them, so that .NET programs read what we send."""

from posthouse.formats.encode.activex import activex_body
from posthouse.formats.encode.body import FORMATTERS, EncodedBody, encode_body
from posthouse.formats.encode.from_text import encode_text
from posthouse.formats.encode.headers import nservicebus_headers, rebus_headers
from posthouse.formats.encode.wcf import wcf_text_body
from posthouse.formats.encode.xml import xml_body

__all__ = [
    "FORMATTERS",
    "EncodedBody",
    "activex_body",
    "encode_body",
    "encode_text",
    "nservicebus_headers",
    "rebus_headers",
    "wcf_text_body",
    "xml_body",
]
