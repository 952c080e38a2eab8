"""Log lines: structlog for this project, the standard library's logging for libraries, in the same form."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hami_plugins.errors import ConfigError

Form = Literal["json", "console", "auto"]

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_HIDDEN: Final = "(not logged)"
_SECRET_KEY: Final = re.compile(r"token|password|passwd|secret|authorization|credential|private_?key", re.IGNORECASE)
_SECRET_TEXT: Final = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_FIRST: Final = ("timestamp", "level", "event")


def configure(level: str, form: Form, *, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Sends every log line of this process to ``stream`` (standard error), replacing an earlier configuration.

    ``level`` is one of ``LEVELS`` and holds for our own lines; libraries are heard from ``warning`` on. ``form`` is one
    JSON object per line, or text for people; ``auto`` chooses text on a terminal. Times are UTC. Values whose key says
    that they are secret, and bearer tokens anywhere, are left out. Raises ``ConfigError`` for another level or form.
    """
    if level not in LEVELS:
        raise ConfigError(f"log level {level!r} is not one of {', '.join(LEVELS)}")
    out = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last = [*_rendering(form, out, environ)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        # A cached logger would keep writing to the stream of an earlier configuration.
        cache_logger_on_first_use=False,
    )
    _listen_to_libraries(out, shared, last, LEVELS[level])


def _rendering(form: Form, out: TextIO, environ: Mapping[str, str]) -> list[Processor]:
    # Tracebacks without local variables: those hold tokens and whole objects.
    match form:
        case "json":
            text = False
        case "console":
            text = True
        case "auto":
            text = out.isatty()
        case _:
            raise ConfigError(f"log form {form!r} is not one of json, console, auto")
    if text:
        colours = out.isatty() and not environ.get("NO_COLOR")
        plain = structlog.dev.plain_traceback
        return [_without_secrets, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, _without_secrets, _ordered, _as_json]


def _listen_to_libraries(out: TextIO, shared: list[Processor], last: list[Processor], level: int) -> None:
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _LibraryHandler)]:
        root.removeHandler(handler)
    handler = _LibraryHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))


class _LibraryHandler(logging.StreamHandler[TextIO]):
    """Ours among the root logger's handlers."""


def _without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _HIDDEN if _SECRET_KEY.search(key) else _safe(value) for key, value in event.items()}


def _safe(value: Any) -> Any:
    match value:
        case str():
            return _SECRET_TEXT.sub(rf"\1 {_HIDDEN}", value)
        case Mapping():
            return {key: _HIDDEN if _SECRET_KEY.search(str(key)) else _safe(each) for key, each in value.items()}
        case list() | tuple():
            return [_safe(each) for each in value]
        case _:
            return value


def _ordered(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> EventDict:
    """What people look for comes first; the rest keeps the order of the call."""
    return {key: event[key] for key in _FIRST if key in event} | dict(event)


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
