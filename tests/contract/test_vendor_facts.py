"""Printed facts about vendors have a source, or are marked as unknown."""

import re

import pytest

from hami_plugins.model.facts import Support
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.output.vendors import facts, features, statements
from hami_plugins.vendors import BUILTIN
from neuron_topology.core import vendor
from tests import acme

every_vendor = pytest.mark.parametrize("spec", [*BUILTIN, vendor.SPEC], ids=lambda spec: spec.title)

FILE = re.compile(r"(HAMi|Volcano|Koordinator) [\d.]+ \S+|HAMi website docs/\S+|AWS Neuron documentation \S+")
"""A file of a release, or a page."""

LOOSE = {
    "HAMi's FAQ of 2025",
    "vnpus.configs of HAMi's device config",
    "iluvatars of HAMi's device config",
    "Koordinator 1.7.0",
}


@every_vendor
def test_what_is_said_has_a_source_and_what_has_none_is_unknown(spec: VendorSpec) -> None:
    for name, _, (support, words, source) in features(spec):
        assert (support is Support.UNKNOWN) == (not source) or words, name
    for name, _, (words, source) in statements(spec):
        assert bool(words) == bool(source), name


@every_vendor
def test_every_source_names_a_file_of_a_release_or_a_page(spec: VendorSpec) -> None:
    for name, _, source in (*facts(spec), ("rules", "", spec.facts.code)):
        for each in filter(None, source.split("; ")):
            assert each in LOOSE or FILE.fullmatch(each), (name, each)
    assert spec.facts.code


@every_vendor
def test_filters_are_the_keys_that_are_read(spec: VendorSpec) -> None:
    found = {member: feature for _, member, feature in features(spec)}
    for key in (*spec.keys.use_ids, *spec.keys.avoid_ids):
        assert key in found["idFilter"].words
    for key in filter(None, (spec.keys.use_models, spec.keys.avoid_models)):
        assert key in found["modelFilter"].words


@every_vendor
def test_numa_and_topology_are_said_of_vendors_with_such_rules_alone(spec: VendorSpec) -> None:
    found = {member: feature.support for _, member, feature in features(spec)}
    halves = spec.name in {"kunlun", "XPU"}
    assert found["numa"] is (Support.YES if spec.fitting.binds_numa or halves else Support.NO)
    joined = spec.fitting.select is not None or spec.scoring.score_node is not None
    by_load = spec.name in {"Volcano-vGPU", "Ascend310P"}
    elsewhere = spec.name == "Koordinator"
    assert found["topology"] is (Support.YES if (joined and not by_load) or elsewhere else Support.NO)


def test_nothing_is_known_about_a_vendor_that_says_nothing() -> None:
    known = {name: answer for name, answer, _ in facts(acme.SPEC)}
    assert known["memory isolation"] == known["models"] == known["runtime class"] == "unknown"
    assert known["UUID filter"] == "yes: acme.example/use-uuid, acme.example/nouse-uuid"
