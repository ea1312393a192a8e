"""Text files that users write, in whatever encoding their editor or shell chose."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class NotTextError(OSError):
    """The file can be read, but is no text. An OSError, because to a reader of the file it is one more reason why that failed."""


def read_text(path: Path) -> str:
    """The text of a file: UTF-8, or what its byte order mark says. Raises OSError."""
    return decode(path.read_bytes(), str(path))


def decode(content: bytes, origin: str) -> str:
    """The same for bytes; `origin` is named in errors."""
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        reason = f"not a text file: it is not {encoding.removesuffix('-sig').upper()} at byte {error.start}; save it as UTF-8"
        raise NotTextError(0, reason, origin) from error
