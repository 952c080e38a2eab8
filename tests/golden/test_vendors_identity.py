"""Names, units and annotation keys of every vendor; the sections of HAMi's device config are the settings' matter."""

from typing import Any

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from tests.golden import cases, notation

_ROLES = {
    "allocated": "allocated",
    "register": "register",
    "handshake": "handshake",
    "pair_score": "pair_scores",
    "mode_filter": "mode",
}
"""Annotation roles with a place of their own; the others only have to be among a vendor's keys."""


@cases.each("hami-vendors/identity.yaml")
def test_vendor_is_named_as_its_vector_says(case: cases.Case) -> None:
    spec, expect = notation.vendor(case.given["backend"]), case.expect
    hami = [each for each in notation.registry() if each.dialect is Dialect.HAMI]
    assert spec.name == expect["common_word"]
    assert hami.index(spec) + 1 == expect["init_order"]
    assert _resources(spec) == expect["resources"]
    assert (spec.keys.lock or None) == expect["lock"]
    assert list(zip(spec.keys.use_ids, spec.keys.avoid_ids, strict=True)) == _pairs(expect["uuid_filters"])
    models = [(spec.keys.use_models, spec.keys.avoid_models)] if spec.keys.use_models else []
    assert models == _pairs(expect["type_filters"])
    assert _unmet_keys(spec, expect) == []
    factor = expect.get("memory_factor", expect["units"].get("memory", {}).get("mib_per_unit"))
    assert factor is None or spec.memory_factor() == factor
    assert not {*spec.keys.all(), *spec.resources.all()} & {
        *expect.get("dead_keys", ()),
        *expect.get("dead_resources", ()),
    }


def _resources(spec: VendorSpec) -> dict[str, str]:
    roles = ("count", "memory", "memory_percentage", "cores", "priority")
    return {role: name for role in roles if (name := getattr(spec.resources, role))}


def _pairs(filters: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(each["use"], each["nouse"]) for each in filters]


def _unmet_keys(spec: VendorSpec, expect: dict[str, Any]) -> list[str]:
    unmet = []
    for role, key in expect["annotations"].items():
        if role == "to_allocate":
            met = (spec.keys.to_allocate if spec.records.writes_to_allocate else "") == (key or "")
        elif role in _ROLES:
            met = getattr(spec.keys, _ROLES[role]) == (key or "")
        else:
            met = key in spec.keys.all()
        if not met:
            unmet.append(f"{role}: {key}")
    inventory = expect["inventory"]
    if inventory["source"] == "annotation" and inventory["key"] != spec.keys.register:
        unmet.append(f"inventory: {inventory['key']}")
    return unmet
