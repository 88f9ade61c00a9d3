"""What .NET applications put into bodies and extensions of messages: detect, decode, encode.

`decode` is the one door. All of it is pure: bytes in, values out; no file or address is opened, no
type of a sender is loaded, and every decoder ends within limits, whatever the bytes are.
"""

from posthouse.formats.decoded import Decoded, ExceptionInfo, Meaning
from posthouse.formats.detect import decode
from posthouse.formats.limits import DEFAULT, FormatError, Limits

__all__ = ["DEFAULT", "Decoded", "ExceptionInfo", "FormatError", "Limits", "Meaning", "decode"]
