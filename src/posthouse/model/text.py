"""Text in packets, counted in UTF-16 code units ([MS-MQMQ] 2.2), and made safe to print."""

import difflib


def utf16_length(text: str) -> int:
    """The number of WCHARs of a text; characters beyond U+FFFF count two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def has_lone_surrogate(text: str) -> bool:
    """Whether the text holds half a surrogate pair, which no encoding can carry."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def excerpt(text: str) -> str:
    """A quoted beginning of a text for messages, however long or strange the text is."""
    return ascii(text) if len(text) <= 80 else f"{text[:77]!a}..."


def counted(count: int, noun: str) -> str:
    """A number and its noun: 1 message, 2,000 messages."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def nearest(name: str, known: list[str]) -> str:
    """The known name that is most like one that is not."""
    return difflib.get_close_matches(name[:80].lower(), known, 1, 0.0)[0]
