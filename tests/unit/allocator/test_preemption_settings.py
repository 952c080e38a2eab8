"""The pods for which the allocator evicts, by its settings."""

from __future__ import annotations

import pytest

from hami_plugins.allocator.settings import SETTINGS
from hami_plugins.errors import ConfigError
from hami_plugins.model.pods import Pod


def load(text: str) -> object:
    return SETTINGS.load(f"preemption: {text}", {}).preemption.mode


def test_nobody_is_evicted_unless_that_is_set() -> None:
    assert SETTINGS.load("", {}).preemption.mode == "off"
    assert load("{mode: off}") == "off", "YAML takes a bare off for false"
    assert load("{mode: scheduler}") == "scheduler"


@pytest.mark.parametrize(
    "text", ["{mode: on}", "{mode: true}", "{mode: 0}", "{mode: full, atOnce: 0, priorityClasses: [a]}"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        load(text)


def test_the_server_evicts_only_for_classes_that_are_named() -> None:
    with pytest.raises(ConfigError, match="mode full needs priorityClasses"):
        load("{mode: full}")


@pytest.mark.parametrize(
    ("classes", "namespaces", "covered"),
    [
        (["urgent"], ["*"], True),
        (["*"], ["team"], True),
        (["other"], ["*"], False),
        (["urgent"], ["other"], False),
    ],
)
def test_a_pod_is_covered_by_its_class_and_its_namespace(
    classes: list[str], namespaces: list[str], *, covered: bool
) -> None:
    told = SETTINGS.load(f"preemption: {{mode: full, priorityClasses: {classes}, namespaces: {namespaces}}}", {})
    assert told.preemption.covers(Pod(namespace="team", name="p", priority_class="urgent")) is covered
