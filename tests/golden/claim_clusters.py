"""Small clusters with claims, each with pods that are submitted one after another.

``claim_clusters.json`` holds the real kube-scheduler 1.34.4's results for them, recorded by
``tests/cluster/test_claims.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.claim_objects import (
    CLASS,
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
    exactly,
    first_of,
)
from tests.raw_objects import Raw

ANSWERS: Final = Path(__file__).parent / "claim_clusters.json"
EXTENDED: Final = "example.com/gpu"

POLICY: Final = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "41Gi", "step": "4Gi"}}
COUNTERS: Final = [{"name": "card", "counters": {"slices": {"value": "4"}, "media": {"value": "1"}}}]


class ClaimCluster(NamedTuple):
    """Objects, pods last and in their order."""

    name: str
    objects: tuple[Raw, ...]

    def accepted(self, release: str) -> list[Raw]:
        """The objects as the API server of a release takes them.

        From 1.35 on a ResourceSlice has counters or devices, not both: the counters are a slice of their own.
        """
        return [made for raw in self.objects for made in _accepted(raw, release)]

    @property
    def pods(self) -> tuple[Raw, ...]:
        return tuple(each for each in self.objects if each["kind"] == "Pod")


def recorded(release: str) -> Mapping[str, Mapping[str, bool]]:
    """Which pods of which cluster the real scheduler of a release placed."""
    return answers()[release]


def answers() -> Mapping[str, Mapping[str, Mapping[str, bool]]]:
    """The same of all releases."""
    found: Mapping[str, Mapping[str, Mapping[str, bool]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found


def _accepted(raw: Raw, release: str) -> list[Raw]:
    spec = raw.get("spec", {})
    if release == "1.34" or raw["kind"] != "ResourceSlice" or "sharedCounters" not in spec:
        return [raw]
    pool = {**spec["pool"], "resourceSliceCount": spec["pool"]["resourceSliceCount"] + 1}
    counters = {key: spec[key] for key in spec if key != "devices"} | {"pool": pool}
    devices = {key: spec[key] for key in spec if key != "sharedCounters"} | {"pool": pool}
    metadata = {**raw["metadata"], "name": f"{raw['metadata']['name']}-counters"}
    return [{**raw, "metadata": metadata, "spec": counters}, {**raw, "spec": devices}]


def one_for_each(count: int, *requests: Raw, constraints: Any = ()) -> list[Raw]:
    """So many pods, each with a claim of its own."""
    made: list[Raw] = []
    for at in range(count):
        made += [a_claim(f"c{at}", *requests, constraints=constraints), a_pod(f"p{at}", claim=f"c{at}")]
    return made


def of_claims(**claims: Raw | list[Raw]) -> list[Raw]:
    """Pods by name, each with a claim of these requests."""
    made: list[Raw] = []
    for name, requests in claims.items():
        listed = requests if isinstance(requests, list) else [requests]
        made += [a_claim(f"c-{name}", *listed), a_pod(name, claim=f"c-{name}")]
    return made


def models(*names: str) -> list[Raw]:
    """Devices of these models."""
    return [a_device(f"gpu-{at}", attributes={"model": name}) for at, name in enumerate(names)]


def by(text: str) -> str:
    """An expression about the model."""
    return f'device.attributes["{DRIVER}"].{text}'


def part(name: str, slices: int, media: int = 0) -> Raw:
    """A part of a card."""
    counters = {"slices": {"value": str(slices)}, **({"media": {"value": str(media)}} if media else {})}
    uses = [{"counterSet": "card", "counters": counters}]
    return a_device(name, attributes={"size": slices}, consumesCounters=uses)


def tainted(effect: str) -> Raw:
    """A device with a taint, and one without."""
    return a_slice(a_device("sick", taints=[{"key": "sick", "value": "yes", "effect": effect}]))


BASE: Final = (a_node(), a_class())
TWO: Final = a_slice(*models("A100", "H100"))
PARTS: Final = a_slice(
    part("whole", 4, 1), part("half-a", 2, 1), part("half-b", 2), part("quarter", 1), sharedCounters=COUNTERS
)
SAME_MODEL: Final = [{"matchAttribute": f"{DRIVER}/model"}]
TOLERANT: Final = [{"key": "sick", "operator": "Exists"}]
RACK: Final = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}


def _clusters() -> dict[str, list[Raw]]:
    return {
        "devices-run-out": [*BASE, TWO, *one_for_each(3, a_request())],
        "two-of-three-devices": [*BASE, a_slice(*models("a", "b", "c")), *one_for_each(2, a_request(count=2))],
        "selector-of-the-request": [*BASE, TWO, *one_for_each(2, a_request("r", by('model == "H100"')))],
        "selector-of-the-class": [
            a_node(),
            a_class(CLASS, f'device.driver == "{DRIVER}"', by('model == "A100"')),
            TWO,
            *one_for_each(2, a_request()),
        ],
        "two-selectors": [*BASE, TWO, *one_for_each(1, a_request("r", by('model != "A100"'), by('model != "H100"')))],
        "all-devices": [*BASE, TWO, *of_claims(a=a_request(allocationMode="All"), b=a_request())],
        "all-devices-but-one-is-taken": [*BASE, TWO, *of_claims(a=a_request(), b=a_request(allocationMode="All"))],
        "all-of-none": [*BASE, a_slice(*models("a")), *one_for_each(1, a_request("r", "false", allocationMode="All"))],
        "one-model": [
            *BASE,
            a_slice(*models("a", "b", "a", "b")),
            *one_for_each(3, a_request(count=2), constraints=SAME_MODEL),
        ],
        "one-model-over-two-requests": [
            *BASE,
            a_slice(*models("a", "b", "b")),
            *one_for_each(2, a_request("r"), a_request("s"), constraints=SAME_MODEL),
        ],
        "attribute-that-devices-lack": [
            *BASE,
            TWO,
            *one_for_each(1, a_request(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        ],
        "different-models": [
            *BASE,
            a_slice(*models("a", "a")),
            *one_for_each(1, a_request("r"), a_request("s"), constraints=[{"distinctAttribute": f"{DRIVER}/model"}]),
        ],
        "different-models-on-one-card": [
            *BASE,
            a_slice(a_card(attributes={"model": "a"})),
            *one_for_each(
                1,
                a_request("r", memory="1Gi"),
                a_request("s", memory="1Gi"),
                constraints=[{"distinctAttribute": f"{DRIVER}/model"}],
            ),
        ],
        "admin-access": [
            *BASE,
            TWO,
            *of_claims(a=a_request(count=2), m=a_request(allocationMode="All", adminAccess=True), b=a_request()),
        ],
        "prioritized-list": [
            *BASE,
            TWO,
            *one_for_each(3, first_of("r", big=exactly(by('model == "H100"')), any=exactly())),
        ],
        "prioritized-list-with-constraint": [
            *BASE,
            a_slice(*models("a", "b", "b")),
            *one_for_each(
                2,
                first_of("r", two=exactly(count=2), one=exactly()),
                constraints=[{"requests": ["r/two"], "matchAttribute": f"{DRIVER}/model"}],
            ),
        ],
        "shared-memory": [*BASE, a_slice(a_card()), *one_for_each(3, a_request(memory="30Gi"))],
        "first-card-full": [
            *BASE,
            a_slice(a_card("gpu-0"), a_card("gpu-1")),
            *one_for_each(3, a_request(memory="60Gi")),
        ],
        "nothing-asked-is-all-of-it": [
            *BASE,
            a_slice(a_card()),
            *of_claims(a=a_request(), b=a_request(memory="1Gi")),
        ],
        "nothing-asked-is-the-default": [
            *BASE,
            a_slice(a_card(memory="2Gi", policy={"default": "1Gi", "validRange": {"min": "1Gi"}})),
            *one_for_each(3, a_request()),
        ],
        "amounts-are-rounded-up": [
            *BASE,
            a_slice(
                a_card(memory="10Gi", policy={**POLICY, "validRange": {"min": "1Gi", "max": "9Gi", "step": "4Gi"}})
            ),
            *of_claims(a=a_request(memory="2Gi"), b=a_request(memory="5Gi"), c=a_request(memory="5Gi")),
        ],
        "more-than-the-most": [*BASE, a_slice(a_card(policy=POLICY)), *one_for_each(1, a_request(memory="42Gi"))],
        "valid-values": [
            *BASE,
            a_slice(a_card(policy={"default": "10Gi", "validValues": ["10Gi", "40Gi", "80Gi"]})),
            *of_claims(
                a=a_request(memory="11Gi"), b=a_request(memory="81Gi"), c=a_request(memory="40Gi"), d=a_request()
            ),
        ],
        "below-nothing": [
            *BASE,
            a_slice(a_card(policy=POLICY)),
            *of_claims(a=a_request(memory="-20Gi"), b=a_request(memory="40Gi"), c=a_request(memory="40Gi")),
        ],
        "capacity-of-a-whole-device": [
            *BASE,
            a_slice(a_device("small", capacity={"memory": {"value": "8Gi"}}), a_device("bare")),
            *of_claims(a=a_request(memory="9Gi"), b=a_request(memory="8Gi")),
        ],
        "key-with-the-domain": [
            *BASE,
            a_slice(a_card()),
            *one_for_each(1, {"name": "r", "exactly": exactly(capacity={"requests": {f"{DRIVER}/memory": "1Gi"}})}),
        ],
        "two-requests-on-one-card": [
            *BASE,
            a_slice(a_card()),
            *one_for_each(2, a_request("r", memory="30Gi"), a_request("s", memory="30Gi")),
        ],
        "two-units-on-one-card": [
            *BASE,
            a_slice(a_card(), a_card("gpu-1")),
            *one_for_each(1, a_request(memory="30Gi", count=2)),
        ],
        "parts-of-a-card": [
            *BASE,
            PARTS,
            *of_claims(
                a=a_request("r", by("size == 2")),
                b=a_request("r", by("size == 4")),
                c=a_request("r", by("size == 2")),
                d=a_request("r", by("size == 1")),
            ),
        ],
        "two-parts-for-one-claim": [
            *BASE,
            PARTS,
            *of_claims(
                a=[a_request("r", by("size == 2")), a_request("s", by("size == 2"))], b=a_request("r", by("size == 1"))
            ),
        ],
        "whole-card-then-a-part": [
            *BASE,
            PARTS,
            *of_claims(a=a_request("r", by("size == 4")), b=a_request("r", by("size == 1"))),
        ],
        "taint": [*BASE, tainted("NoSchedule"), *of_claims(a=a_request(), b=a_request(tolerations=TOLERANT))],
        "taint-that-evicts": [
            *BASE,
            tainted("NoExecute"),
            *of_claims(
                a=a_request(tolerations=[{"key": "sick", "value": "no"}]),
                b=a_request(tolerations=[{"key": "sick", "value": "yes", "effect": "NoExecute"}]),
            ),
        ],
        "slice-missing": [*BASE, a_slice(*models("a"), slices=2), *one_for_each(1, a_request())],
        "slice-missing-and-all-asked": [
            *BASE,
            a_slice(*models("a"), slices=2),
            *one_for_each(1, a_request(allocationMode="All")),
        ],
        "two-generations": [
            *BASE,
            a_slice(*models("a", "b"), name="old"),
            a_slice(a_device("new"), name="new", generation=2),
            *one_for_each(2, a_request()),
        ],
        "one-name-twice": [
            *BASE,
            a_slice(*models("a"), name="x", slices=2),
            a_slice(*models("b"), name="y", slices=2),
            *one_for_each(1, a_request()),
        ],
        "devices-for-all-nodes": [
            a_node("n1"),
            a_node("n2"),
            a_class(),
            a_slice(*models("a"), node=None, allNodes=True),
            *one_for_each(2, a_request()),
        ],
        "devices-for-chosen-nodes": [
            a_node("n1", labels={"rack": "a"}),
            a_node("n2"),
            a_class(),
            a_slice(*models("a", "b"), node=None, nodeSelector=RACK),
            a_claim("c0", a_request()),
            a_pod("p0", claim="c0", nodeSelector={"rack": "a"}),
            a_claim("c1", a_request()),
            a_pod("p1", claim="c1", nodeSelector={"kubernetes.io/hostname": "n2"}),
        ],
        "each-device-has-its-nodes": [
            a_node("n1", labels={"rack": "a"}),
            a_class(),
            a_slice(
                a_device("elsewhere", nodeName="n2"),
                a_device("here", nodeSelector=RACK),
                node=None,
                perDeviceNodeSelection=True,
            ),
            *one_for_each(2, a_request()),
        ],
        "shared-claim": [
            *BASE,
            a_slice(*models("a")),
            a_claim("c", a_request()),
            a_pod("p0", claim="c"),
            a_pod("p1", claim="c"),
            *of_claims(late=a_request()),
        ],
        "claim-with-devices-elsewhere": [
            a_node("n1", labels={"rack": "a"}),
            a_node("n2", labels={"rack": "b"}),
            a_class(),
            TWO,
            a_slice(*models("a"), node="n2"),
            a_claim("c", a_request()),
            a_pod("p0", claim="c", nodeSelector={"rack": "a"}),
            a_pod("p1", claim="c", nodeSelector={"rack": "b"}),
        ],
        "no-such-claim": [*BASE, TWO, a_pod("p0", claim="nope"), *of_claims(fine=a_request())],
        "no-such-class": [*BASE, TWO, *one_for_each(1, a_request(of="nope"))],
        "no-slices": [*BASE, *one_for_each(1, a_request())],
        "error-in-a-selector": [*BASE, TWO, *one_for_each(1, a_request("r", by('nope == "x"')))],
        "attribute-is-there-or-not": [
            *BASE,
            a_slice(a_device("bare"), a_device("rich", attributes={"fast": True})),
            *one_for_each(2, a_request("r", f'"fast" in device.attributes["{DRIVER}"] && {by("fast")}')),
        ],
        "quantity-in-a-selector": [
            *BASE,
            a_slice(
                a_device("small", capacity={"memory": {"value": "40Gi"}}),
                a_device("large", capacity={"memory": {"value": "80Gi"}}),
            ),
            *one_for_each(2, a_request("r", f'device.capacity["{DRIVER}"].memory.compareTo(quantity("50Gi")) > 0')),
        ],
        "version-in-a-selector": [
            *BASE,
            a_slice(
                a_device("old", attributes={"v": {"version": "1.9.0"}}),
                a_device("new", attributes={"v": {"version": "1.10.0"}}),
            ),
            *one_for_each(2, a_request("r", f'{by("v")}.isGreaterThan(semver("1.9.9"))')),
        ],
        "bind-in-a-selector": [
            *BASE,
            TWO,
            *one_for_each(2, a_request("r", f'cel.bind(of, device.attributes["{DRIVER}"], of.model.startsWith("H"))')),
        ],
        "plain-resource-of-a-class": [
            a_node(),
            a_class(CLASS, extendedResourceName=EXTENDED),
            TWO,
            *(a_pod(f"p{at}", limits={EXTENDED: "1"}) for at in range(3)),
        ],
        "plain-resource-of-a-plugin": [
            a_node(resources={EXTENDED: "1"}),
            a_class(CLASS, extendedResourceName=EXTENDED),
            TWO,
            *(a_pod(f"p{at}", limits={EXTENDED: "1"}) for at in range(2)),
        ],
        "plain-resource-of-a-plugin-that-is-gone": [
            a_node(resources={EXTENDED: "0"}),
            a_class(CLASS, extendedResourceName=EXTENDED),
            TWO,
            a_pod("p0", limits={EXTENDED: "1"}),
        ],
        "plain-resource-beside-a-claim": [
            a_node(),
            a_class(CLASS, extendedResourceName=EXTENDED),
            TWO,
            a_claim("c", a_request()),
            a_pod("p0", claim="c", limits={EXTENDED: "1"}),
            *of_claims(late=a_request()),
        ],
        "more-devices-than-a-claim-can-have": [
            *BASE,
            a_slice(*models(*(str(at) for at in range(40)))),
            *of_claims(a=a_request(count=33), b=a_request(count=32)),
        ],
        "an-earlier-request-gives-way": [
            *BASE,
            TWO,
            *one_for_each(1, a_request("first"), a_request("second", by('model == "A100"'))),
        ],
        "two-claims-of-one-pod": [
            *BASE,
            TWO,
            a_claim("c0", a_request()),
            a_claim("c1", a_request("r", by('model == "A100"'))),
            a_pod("p0", claims=[{"name": "a", "resourceClaimName": "c0"}, {"name": "b", "resourceClaimName": "c1"}]),
            *of_claims(late=a_request()),
        ],
        "claims-of-templates": [
            *BASE,
            TWO,
            a_template("one", a_request()),
            *(a_pod(f"p{at}", template="one") for at in range(3)),
        ],
    }


CLUSTERS: Final = tuple(ClaimCluster(name, tuple(objects)) for name, objects in _clusters().items())


def apart(number: int, raw: Any, *, key: str = "") -> Any:
    """The objects of one cluster with names of their own, so that all clusters can be one."""
    if isinstance(raw, dict):
        return {_apart(number, name): apart(number, value, key=name) for name, value in raw.items()}
    if isinstance(raw, list):
        return [apart(number, each, key=key) for each in raw]
    if not isinstance(raw, str):
        return raw
    if key in {"nodeName", "deviceClassName", "kubernetes.io/hostname"}:
        return f"c{number}-{raw}"
    return _apart(number, raw)


def _apart(number: int, text: str) -> str:
    return text.replace(DRIVER, f"c{number}.{DRIVER}").replace(EXTENDED, f"c{number}.{EXTENDED}")
