"""Logging set-up: a constant sentence, then key=value, on standard error or in a file, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys

from corral.core.timestamps import format_micro

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """`2026-01-01T00:00:00.000000Z INFO corral.x: sentence key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={_word(value)}" for name, value in _facts(record).items())
        line = f"{format_micro(record.created)} {record.levelname} {record.name}: {record.getMessage()}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": format_micro(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _word(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "=\n') else text


class _StandardError(logging.Handler):
    """Writes to what standard error is when a line is written: a stream that was there at set-up may be closed by then."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # nobody can be told where nobody listens


def set_up(verbosity: int = 0, *, as_json: bool = False) -> None:
    """Send logs to standard error: warnings and up, with more `verbosity` info and debug."""
    handler = _StandardError()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("corral").setLevel(level)
