"""The directory's document as a file."""

from __future__ import annotations

from pathlib import Path

from posthouse.directory.document.document import Document
from posthouse.directory.document.text import parse_document
from posthouse.model.errors import InvalidParameter

FILE_SIZE_MAX = 256 << 20


def read_file(file: Path) -> Document:
    """The document of a file; what is wrong with it is told with its place."""
    try:
        if file.stat().st_size > FILE_SIZE_MAX:
            raise InvalidParameter(f"{file} is larger than {FILE_SIZE_MAX >> 20} MiB")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{file} is not TOML: {error}", "Correct it there.") from error
    return parse_document(text, str(file))
