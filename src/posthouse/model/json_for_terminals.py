"""JSON that cannot steer a terminal: the same values, with more characters escaped.

JSON leaves everything above U+001F as it is, also the control characters U+0080 to U+009F, which
terminals obey, and characters that change the direction of text or are not seen. What commands
print and what the audit log keeps goes through here, since values of strangers are in it.
"""

import unicodedata
from typing import Final

# Controls, invisible and direction-changing characters, lone surrogates, line separators.
ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def json_for_terminals(text: str) -> str:
    """Return a JSON text with the same value and every such character escaped."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    # Each character is looked at once, however often it comes: a line may be long.
    escapes = {ord(one): escape for one in set(text) if (escape := _escape(one)) != one}
    return text.translate(escapes) if escapes else text


def _escape(character: str) -> str:
    if character.isascii() or unicodedata.category(character) not in ESCAPED:
        return "\\u007f" if character == "\x7f" else character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
