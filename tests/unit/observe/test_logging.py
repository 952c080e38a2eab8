"""What a log line looks like, and what never gets into one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from hami_plugins.errors import ConfigError
from hami_plugins.observe.logging import configure


@pytest.fixture(autouse=True)
def _no_context() -> Iterator[None]:
    yield
    structlog.contextvars.clear_contextvars()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_utc_time_level_and_event_first() -> None:
    out = io.StringIO()
    configure("info", "json", stream=out)
    with structlog.contextvars.bound_contextvars(node="n1"):
        structlog.get_logger().info("pod_bound", pod="ns/a")
    (line,) = lines(out)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert line["timestamp"].endswith("Z")
    assert (line["level"], line["event"], line["pod"], line["node"]) == ("info", "pod_bound", "ns/a", "n1")


def test_a_level_silences_what_is_below() -> None:
    out = io.StringIO()
    configure("warning", "json", stream=out)
    logger = structlog.get_logger()
    logger.info("quiet_happened")
    logger.warning("loud_happened")
    assert [line["event"] for line in lines(out)] == ["loud_happened"]


def test_a_terminal_gets_text_and_anything_else_json() -> None:
    terminal, file = Terminal(), io.StringIO()
    configure("info", "auto", stream=terminal, environ={"NO_COLOR": "1"})
    structlog.get_logger().info("pod_bound", pod="ns/a")
    configure("info", "auto", stream=file)
    structlog.get_logger().info("pod_bound", pod="ns/a")
    assert "pod=ns/a" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()
    assert lines(file)[0]["pod"] == "ns/a"


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_left_out_wherever_they_stand(form: Any) -> None:
    out = io.StringIO()
    configure("info", form, stream=out)
    structlog.get_logger().info(
        "request_refused",
        token="s3cret-1",
        headers={"Authorization": "s3cret-2", "Accept": "json"},
        error="401 for Bearer s3cret-3.x",
        tries=["basic s3cret-4="],
    )
    assert "s3cret" not in out.getvalue()
    assert "request_refused" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_is_told_without_the_values_of_variables(form: Any) -> None:
    out = io.StringIO()
    configure("info", form, stream=out)
    held = "s3cret"
    try:
        int(held[:1])
    except ValueError:
        structlog.get_logger().exception("loop_failed")
    assert "ValueError" in out.getvalue()
    assert "s3cret" not in out.getvalue()


def test_libraries_are_heard_in_the_same_form_from_warnings_on() -> None:
    out = io.StringIO()
    configure("debug", "json", stream=out)
    logging.getLogger("urllib3.pool").debug("chatter")
    logging.getLogger("urllib3.pool").warning("pool %s is full", "p", extra={"token": "s3cret"})
    (line,) = lines(out)
    assert (line["level"], line["event"], line["logger"]) == ("warning", "pool p is full", "urllib3.pool")


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logger = structlog.get_logger()
    configure("info", "json", stream=first)
    logger.info("one_happened")
    configure("info", "json", stream=second)
    logger.info("two_happened")
    logging.getLogger("library").warning("three")
    assert [line["event"] for line in lines(first)] == ["one_happened"]
    assert [line["event"] for line in lines(second)] == ["two_happened", "three"]


@pytest.mark.parametrize(("level", "form"), [("loud", "json"), ("info", "xml")])
def test_a_word_that_is_none_of_the_settings_is_refused(level: str, form: Any) -> None:
    with pytest.raises(ConfigError, match="is not one of"):
        configure(level, form, stream=io.StringIO())
