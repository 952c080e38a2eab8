"""The pages of ``docs/reference`` that are written by a program have what the program has."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from hami_plugins.vet import RULES
from tests.golden import commands_page, metrics_page, releases_page, rules_page, support_page, values_page, vendors_page
from tests.source_texts import source_texts

pytestmark = pytest.mark.usefixtures("packs_vendors")


@pytest.mark.parametrize(
    "written",
    [commands_page, metrics_page, releases_page, rules_page, support_page, values_page, vendors_page],
    ids=lambda module: module.__name__,
)
def test_the_page_is_what_the_program_has(written: ModuleType) -> None:
    assert written.PAGE.read_text(encoding="utf-8") == written.page(), f"python -m {written.__name__}"


def test_every_rule_has_an_anchor() -> None:
    headings = {line.removeprefix("## ") for line in rules_page.PAGE.read_text().splitlines() if line.startswith("## ")}
    assert headings == {rule.id for rule in RULES}


def test_every_command_of_the_table_has_its_help() -> None:
    text = commands_page.PAGE.read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`([^`]+)`\]", text, re.MULTILINE)
    assert {"plan", "neuron hypernodes apply", "volcano-vgpu agent", "koordinator migrate"} <= set(listed)
    for command in listed:
        assert f"\n## {command}\n\n```text\nUsage: hami-plugins {command} " in text


@pytest.mark.parametrize("scrape", metrics_page.PROCESSES)
def test_the_recorded_meaning_of_a_metric_is_the_one_of_the_program(scrape: str) -> None:
    """Else the HELP lines of the scrapes in ``tests/golden/charts`` are older than the program."""
    meanings = [family.documentation for family in metrics_page.families(scrape)]
    assert meanings
    assert [meaning for meaning in meanings if meaning not in source_texts()] == []
