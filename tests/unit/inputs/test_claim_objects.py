"""Objects of claims in listings, manifests and snapshot files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.snapshots.redaction import redact
from hami_plugins.inputs.snapshots.trimmer import Trimmer
from hami_plugins.model.claims import DynamicResources, PoolUsage
from hami_plugins.plan import submission
from hami_plugins.vendors import builtin
from tests.claim_objects import (
    DRIVER,
    a_card,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    devices,
    first_of,
    given,
    places,
    planned,
)

REGISTRY = builtin()


def read(*raws: dict[str, Any]) -> DynamicResources:
    """What a listing says of claims."""
    return snapshot_of([{"kind": "List", "items": list(raws)}], REGISTRY).dynamic


def test_a_listing_holds_all_kinds() -> None:
    """With what claims hold of the pools."""
    claim = a_claim("c", a_request(), **given("gpu-0", users=["p"]))
    found = read(a_node(), a_class(), a_slice(a_device()), claim, a_template("t", a_request()))
    assert [each.name for each in found.slices] == ["n1-1"]
    assert (list(found.classes), list(found.claims), list(found.templates)) == (["gpu"], ["default/c"], ["default/t"])
    assert {str(pool): used for pool, used in found.taken.items()} == {f"{DRIVER}/n1": PoolUsage(frozenset({"gpu-0"}))}
    assert not found.empty


def test_what_cannot_be_read_is_a_problem_and_hides_nothing() -> None:
    """And it is counted, because what it says is not known."""
    broken = a_slice(a_device())
    del broken["spec"]["driver"]
    snapshot = snapshot_of([a_node(), broken, a_class(), a_class()], REGISTRY)
    assert [each.what for each in snapshot.problems] == [
        "resourceslice n1-1: spec.driver: is missing (in '')",
        "deviceclass gpu: listed twice; the first counts (in 'gpu')",
    ]
    assert (dict(snapshot.dynamic.unread), list(snapshot.dynamic.classes)) == (
        {"ResourceSlice": 1, "DeviceClass": 1},
        ["gpu"],
    )


def test_a_claim_that_may_be_among_the_unread_is_unknown() -> None:
    """It may be the one that cannot be read."""
    broken = a_claim("c", {"name": "r"})
    assert places([a_node(), a_class(), broken, a_pod(claim="c")]) == {"p": "unknown"}


def test_kinds_of_other_groups_are_others() -> None:
    """Another API may have a kind of the name."""
    assert read(a_node(), a_class() | {"apiVersion": "acme.io/v1"}).empty


def test_manifests_bring_their_own_claims_and_templates() -> None:
    """They count in addition to those of the cluster, and replace those of the same name."""
    text = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [a_template("t", a_request()), a_pod(template="t")]}
    )
    submitted = workloads.read(manifests.read(text, source="x"))
    assert not submitted.ignored
    cluster = snapshot_of([a_node(), a_class(), a_slice(a_device()), a_template("t", a_request(count=9))], REGISTRY)
    after = submission.with_objects(cluster, submitted)
    plan = planned([a_pod(template="t")], snapshot=after)
    assert devices(plan) == ["r=gpu-0"]
    assert submission.with_objects(cluster, workloads.read(())).dynamic is cluster.dynamic


def test_a_manifest_that_cannot_be_read_is_an_error_with_its_place() -> None:
    """As of all other documents."""
    text = json.dumps(a_claim("c", {"name": "r"}))
    with pytest.raises(ManifestError, match=r"deviceClassName.*is missing"):
        workloads.read(manifests.read(text, source="x"))


CLUSTER = [
    a_node("trinity", resources={"acme.io/thing": "1"}),
    a_class("secret-class", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].codename == "morpheus"'),
    a_class("bound", f'cel.bind(neo, device.attributes["{DRIVER}"], neo.codename in ["morpheus"]) // tank'),
    a_slice(
        a_device("dozer", attributes={"codename": "morpheus", "acme.io/rank": 3, "v": {"version": "1.2.3"}}),
        a_card(
            "switch",
            attributes={"codename": "cypher"},
            memory="8Gi",
            policy={"default": "1Gi", "validRange": {"min": "1Gi"}},
        ),
        {"name": "mouse", "basic": {"attributes": {"codename": {"string": "morpheus"}}}},
        {"name": "apoc", "attributes": {"codename": {"string": "x"}}, "zion": {"secret": "keymaker"}},
        node="trinity",
        pool="nebuchadnezzar",
    ),
    a_template(
        "oracle",
        a_request("merovingian", of="secret-class"),
        first_of("twins", one={"deviceClassName": "bound", "adminAccess": True}),
        constraints=[{"requests": ["merovingian", "twins/one"], "matchAttribute": f"{DRIVER}/codename"}],
    ),
    a_claim("seraph", a_request("r", of="bound"), **given("switch", node="trinity", users=["smith"], shareID="logos")),
    a_pod("jones", template="oracle"),
]
SECRETS = (
    "trinity secret-class codename morpheus dozer switch mouse apoc zion keymaker nebuchadnezzar oracle merovingian "
    "twins seraph smith jones acme rank neo tank cypher bound example.com logos"
)


def test_a_redacted_snapshot_tells_nothing_of_claims() -> None:
    """No name, no value and no comment of an expression stays."""
    text = json.dumps(redact(CLUSTER, REGISTRY))
    assert [word for word in SECRETS.split() if word in text] == []


def test_a_redacted_snapshot_has_the_same_answers() -> None:
    """Devices are the same ones under other names."""
    once = redact(CLUSTER, REGISTRY)
    plain, hidden = planned(CLUSTER), planned([dict(each) for each in once])
    assert devices(plain, "jones") == ["merovingian=dozer", "twins/one=mouse"]
    (placed,) = (each.decision for each in hidden.pods)
    assert [each.device.name for claim in placed.claims for each in claim.allocation.devices] == [  # type: ignore[union-attr]
        "device-1",
        "device-2",
    ]
    assert redact(once, REGISTRY) == once


def test_a_member_that_is_not_known_stays_unknown_in_a_snapshot_file() -> None:
    """Its content does not stay, and the decision is as unknown as before."""
    strange = [
        a_node(),
        a_class(),
        a_slice(a_device(zion={"secret": 1})),
        a_template("t", a_request()),
        a_pod(template="t"),
    ]
    kept = list(Trimmer(REGISTRY).objects(strange))
    assert places(strange) == places(kept) == {"p": "unknown"}
    assert places([dict(each) for each in redact(strange, REGISTRY)]) == {"pod-0": "unknown"}
    assert "secret" not in json.dumps(kept)


def test_parameters_of_drivers_do_not_stay() -> None:
    """They decide nothing, and may be anything."""
    claim = a_claim("c", a_request())
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": {"token": "x"}}}]
    (kept,) = Trimmer(REGISTRY).objects([claim])
    assert "config" not in json.dumps(kept)


@pytest.mark.parametrize("kind", ["ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"])
def test_what_has_another_type_is_redacted_as_a_whole(kind: str) -> None:
    """It stays as unreadable as it was."""
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "zion"}}
    for spec in (
        "zion",
        {"devices": "zion", "selectors": "zion", "spec": "zion"},
        {"devices": [{"attributes": "zion"}]},
    ):
        assert "zion" not in json.dumps(redact([raw | {"spec": spec}], REGISTRY))
