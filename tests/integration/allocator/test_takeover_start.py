"""Started in a cluster that HAMi has filled, the allocator knows what each pod holds: for every vendor of HAMi's."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.dialect import Dialect
from tests.golden import corpus
from tests.golden.rules import Case
from tests.golden.test_corpus import FOLDER, shipped
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client

EACH = 4
"""Nodes of each vendor."""

SETTINGS: dict[str, Any] = {
    "vendors": [spec.name for spec in shipped() if spec.dialect is Dialect.HAMI],
    "neuron": {"allocator": "hami"},
}
QUOTAS = "nvidia-quota"


def chosen() -> dict[str, list[Case]]:
    """Recorded situations with running pods, some of each vendor."""
    found: dict[str, list[Case]] = {}
    for case in corpus.cases([FOLDER / "hami.jsonl.gz"]):
        cases = found.setdefault(case["vendor"], [])
        if holding(case) and len(cases) <= EACH and case["vendor"] != QUOTAS:
            cases.append(case)
    return {vendor: cases for vendor, cases in found.items() if cases}


def holding(case: Case) -> bool:
    return any(raw["status"]["phase"] not in corpus.FINISHED for raw in case["pods"])


CASES = chosen()
BROKEN = {vendor: cases.pop() for vendor, cases in CASES.items()}
LISTS = {spec.keys.allocated for spec in shipped() if spec.dialect is Dialect.HAMI}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pods_of(case: Case) -> list[dict[str, Any]]:
    """The pods of a case, in a namespace of their own."""
    return [_stored(raw, case["id"]) for raw in case["pods"]]


def _stored(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod as an API server keeps it: requests of extended resources are their limits (HAMi's webhook changes those
    alone)."""
    found = copy.deepcopy(raw)
    found["metadata"] |= {"namespace": name, "uid": f"{name}-{_name(raw)}"}
    for listed in ("initContainers", "containers"):
        for container in found["spec"].get(listed) or ():
            resources = container.get("resources") or {}
            extended = {key: amount for key, amount in resources.get("limits", {}).items() if "/" in key}
            if extended:
                resources["requests"] = {**resources.get("requests", {}), **extended}
    return found


def broken(case: Case) -> tuple[dict[str, Any], str, str]:
    """One running pod of a case, whose list has words for amounts; the key of the list, and the device."""
    raw = next(each for each in pods_of(case) if each["status"]["phase"] not in corpus.FINISHED)
    notes = raw["metadata"]["annotations"]
    key = next(key for key in notes if key in LISTS)
    device = next(piece for piece in notes[key].split(";") if piece).partition(",")[0]
    notes[key] = notes[key].replace(f"{device},", f"{device},word,many,", 1)
    return raw, key, device


def _name(raw: dict[str, Any]) -> str:
    return str(raw["metadata"]["name"])


Started = tuple[Site, Client, ClusterSnapshot]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A cluster with all of these nodes and pods, and the allocator as it knows them when it is ready."""
    every = [case for cases in CASES.values() for case in cases]
    both = (*every, *BROKEN.values())
    with site(tmp_path_factory.mktemp("takeover"), *(case["node"] for case in both)) as place:
        place.put(*(namespace(case["id"]) for case in both))
        place.put(*(raw for case in every for raw in pods_of(case)))
        place.put(*(broken(case)[0] for case in BROKEN.values()))
        client = place.start(**SETTINGS)
        snapshot = client.server.snapshot()
        assert snapshot is not None
        yield place, client, snapshot


@pytest.mark.parametrize("vendor", sorted(CASES))
def test_every_device_is_used_as_hami_has_it(started: Started, vendor: str) -> None:
    entries = {entry.name: entry for entry in started[2].nodes}
    for case in CASES[vendor]:
        wanted, _, problems = corpus.situation(case, shipped())
        entry = entries[wanted.name]
        assert not problems
        assert entry.state == wanted.state, case["id"]
        assert sum(used.slots for used in entry.state.usage) > 0, case["id"]


@pytest.mark.parametrize("vendor", sorted(CASES))
def test_a_new_pod_finds_room_where_hami_finds_it(started: Started, vendor: str) -> None:
    _, client, _ = started
    for case in CASES[vendor]:
        ours = corpus.answer(case, shipped())
        body = {"Pod": case["mutated"] or case["pod"], "NodeNames": [case["node"]["metadata"]["name"]]}
        status, text = client.post(client.plain(f"{SCHEDULER_PATH}/filter"), json.dumps(body).encode())
        assert status == 200
        found = json.loads(text)
        assert bool(found["NodeNames"]) == ours.fits, (case["id"], found, ours)


def test_nothing_of_what_hami_wrote_is_a_finding(started: Started) -> None:
    _, client, _ = started
    told = {pod for each in client.server._active().session.cache.findings() for pod in each.pods}  # noqa: SLF001
    made = {f"{case['id']}/{_name(broken(case)[0])}" for case in BROKEN.values()}
    # HAMi books a whole Neuron device for some of its cores, and one Neuron device twice.
    assert {pod for pod in told - made if not pod.startswith("neuron-")} == set()


@pytest.mark.parametrize("vendor", sorted(BROKEN))
def test_what_cannot_be_read_is_held_and_told(started: Started, vendor: str) -> None:
    _, client, snapshot = started
    case = BROKEN[vendor]
    raw, key, device = broken(case)
    entry = next(each for each in snapshot.nodes if each.name == case["node"]["metadata"]["name"])
    at = entry.ids.index(device)
    findings = client.server._active().session.cache.findings()  # noqa: SLF001 - as audit prints them
    told = next(each for each in findings if each.pods == (f"{case['id']}/{_name(raw)}",))
    assert entry.state.usage[at].memory >= entry.state.shape.devices[at].memory
    # A Neuron pod whose list is broken also looks larger than its request: that is reported first.
    assert key in told.text or (vendor.startswith("neuron") and told.finding == "larger-than-request")
