"""Names on the wire do not change by accident: each is data, and a change shows in a file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN
from tests.golden import wire_keys

ROOT = Path(__file__).parent.parent.parent
PRODUCTS = ("hami_plugins", "koordinator_adapter", "neuron_topology", "volcano_vgpu")
OUR_NAME = re.compile(r"hami-plugins\.io/[a-z-]+")


def test_every_name_on_the_wire_is_listed(*, update_golden: bool) -> None:
    if update_golden:
        wire_keys.FILE.write_text(wire_keys.text(), encoding="utf-8")
    listed = wire_keys.FILE.read_text(encoding="utf-8")
    assert wire_keys.text() == listed, "a name changed: --update-golden, and a Wire line in CHANGELOG.md"


@pytest.mark.parametrize("spec", BUILTIN, ids=lambda spec: spec.name)
def test_the_list_leaves_no_name_of_a_vendor_out(spec: VendorSpec) -> None:
    listed = wire_keys.text().split()
    assert [name for name in (*spec.resources.all(), *spec.keys.all()) if name not in listed] == []


def names_of_ours() -> Iterator[str]:
    """The names under our own domain that stand in the code."""
    for product in PRODUCTS:
        for path in (ROOT / product).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and OUR_NAME.fullmatch(node.value):
                    yield node.value


def test_the_list_leaves_no_name_of_ours_out() -> None:
    found = set(names_of_ours())
    assert len(found) > 10
    assert found - set(wire_keys.text().split()) == set()
