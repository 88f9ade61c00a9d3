"""The blocking client made from the asyncio client: `python -m tools.blocking_client`.

One source for both: a rule that is changed in one is changed in the other. Only words differ;
`--check` compares, and ends with 1 where a file is not what its source gives.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).parent.parent / "src" / "posthouse" / "client"
FILES: Final = {
    "aio_manager.py": "manager.py",
    "aio_transaction.py": "transaction.py",
}
HEADS: Final = {
    "manager.py": '''"""The blocking client: queue managers, queues, cursors (docs/python.md).

Objects of one session may be used by several threads at a time.

Made from `aio_manager.py` by `python -m tools.blocking_client`: change that file.
"""
''',
    "transaction.py": '''"""Transactions of the blocking client, with databases in them.

Made from `aio_transaction.py` by `python -m tools.blocking_client`: change that file.
"""
''',
}
WORDS: Final = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\ban `(with|for)`", r"a `\1`"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\b__anext__\b", "__next__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAioChannel\b", "Channel"),
    (r"\bposthouse\.client\.aio import\b", "posthouse.client.blocking import"),
    (r"\bposthouse\.client\.aio_(manager|transaction)\b", r"posthouse.client.\1"),
    (r"\bawait_steps\b", "run_steps"),
    (r"\bawait ", ""),
    (r"for (\w+) in (\w+):\n +yield \1\n", r"yield from \2\n"),
)
_DOCSTRING: Final = re.compile(r'"""(?:.|\n)*?"""\n')
_AWAITED: Final = re.compile(r"(?<![\w\])])\(await ")


def made(source: Path) -> str:
    """The blocking client of an asyncio one."""
    text = source.read_text(encoding="utf-8")
    text = HEADS[FILES[source.name]] + _DOCSTRING.sub("", text, count=1)
    text = _without_brackets(text)
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return _formatted(text)


def _without_brackets(text: str) -> str:
    """`(await x)[0]` is `x[0]`: brackets that only `await` needed."""
    while found := _AWAITED.search(text):
        end = _closing(text, found.start())
        inside = text[found.start() + 1 : end].removeprefix("await ")
        text = text[: found.start()] + inside + text[end + 1 :]
    return text


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens here is closed."""
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    raise ValueError("a bracket is not closed")


def _formatted(text: str) -> str:
    """In the style of the tree, imports in order."""
    for words in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "src/x.py", "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True).stdout
    return text


def main(words: list[str]) -> int:
    """Writes the files, or compares them."""
    code = 0
    for source, name in FILES.items():
        path, text = CLIENT / name, made(CLIENT / source)
        if words != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{name} is not made of {source}: run python -m tools.blocking_client")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
