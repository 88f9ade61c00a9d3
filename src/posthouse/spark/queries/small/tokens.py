"""Splits a statement into tokens, as far as Spark and this package read them alike.

What one of both could read in another way is left to Spark: comments and hints, escapes in texts,
numbers with a point or a letter, texts between double quotes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

WORD: Final = "word"
QUOTED: Final = "quoted"
NUMBER: Final = "number"
TEXT: Final = "text"
SIGN: Final = "sign"
END: Final = "end"

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | `(?P<quoted>(?:[^`]|``)+)`
    | (?P<number>[0-9]+)(?![A-Za-z0-9_.])
    | '(?P<text>[^'\\]*)'(?!')
    | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[-+*/%=<>(),.;])
    """,
    re.VERBOSE | re.ASCII,
)
_RESERVED = """
all anti any array as authorization between both by case cast check cluster collate column
constraint create cross cube current_date current_time current_timestamp current_user delete
distinct distribute div drop else end escape except exists false fetch filter for foreign from full
grant group grouping having identifier ilike in inner insert intersect interval into is join lateral
leading left like limit map match_recognize merge minus natural not null offset on only or order
outer overlaps partition pivot primary qualify recursive reduce references regexp right rlike rollup
row rows select semi session_user set setminus some sort stream table tablesample then time
timestamp to trailing transform true union unique unknown unpivot update user using values version
view when where window with within xor
"""
RESERVED: Final = frozenset(_RESERVED.split())
"""Words that are never names here, unless between backquotes."""


class NeedsSpark(Exception):
    """The statement needs Spark, or may: the reason, for people."""


class Token(NamedTuple):
    """One word, sign, number or text; `value` is without its quotes."""

    kind: str
    value: str

    @property
    def shown(self) -> str:
        """The token for people."""
        return "the end" if self.kind == END else self.value


def tokens_of(statement: str) -> list[Token]:
    """All tokens of a statement, and the end."""
    found: list[Token] = []
    place = 0
    while place < len(statement):
        match = _TOKEN.match(statement, place)
        if match is None or _is_special(match, statement):
            raise NeedsSpark(f"only Spark reads what begins with {statement[place]!r}")
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, _value(kind, match.group(kind))))
        place = match.end()
    return [*found, Token(END, "")]


def _value(kind: str, written: str) -> str:
    return written.replace("``", "`") if kind == QUOTED else written


def _is_special(match: re.Match[str], statement: str) -> bool:
    """A text right after a word (x'00', r'\\d'), `--`, `/*`: each means something of its own."""
    place = match.start()
    if match.lastgroup == TEXT:
        before = statement[place - 1 : place]
        return before.isalnum() or before in tuple("_'`\"") or "\0" in match.group()
    return statement.startswith(("--", "/*"), place)
