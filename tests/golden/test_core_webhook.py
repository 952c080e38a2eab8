"""HAMi's admission webhook: whose pod it is, what NVIDIA makes of a container, and quotas."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.mutate import PodAdmission, PodChange, WebhookSettings, admit, applied
from hami_plugins.engine.quota import headroom
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.vendors import nvidia
from hami_plugins.wire import admission, objects
from tests import builders
from tests.golden import cases, notation

DEVIATIONS = {
    "webhook-decide-s52-08": "a pod that asks for nothing exceeds no quota, however far that is overdrawn; the vector "
    "assumes a check that fails all the same",
}

GPU = "nvidia.com/gpu"


@cases.each("hami-core/webhook-decide.yaml")
def test_pod_is_admitted_as_its_vector_says(case: cases.Case) -> None:
    raw = _raw(case.given["pod"])
    answer = _answer(case.given, raw)
    if case.id in DEVIATIONS:
        assert answer.allowed
        return
    assert answer.allowed is case.expect.get("allowed", True)
    assert answer.message == case.expect.get("message", answer.message)
    paths = _patched(raw, answer)
    assert paths == case.expect.get("patch_paths", paths)
    assert set(case.expect.get("patch_paths_contain", [])) <= set(paths)
    if case.expect.get("schedulerName_unchanged"):
        assert "/spec/schedulerName" not in paths


def _answer(given: Mapping[str, Any], raw: dict[str, Any]) -> PodAdmission:
    settings = WebhookSettings(scheduler=given["our_scheduler"], takes_over_default=given["force_overwrite"])
    left = {} if given["quota_ok"] else {nvidia.SPEC.name: Headroom(MiB(-1), CoreShare(-1))}
    return admit(objects.pod(raw), Registry([nvidia.SPEC]), settings, left)


def _raw(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod of a vector as the API server hands it over."""
    spec: dict[str, Any] = {key: pod[key] for key in ("schedulerName", "nodeName") if key in pod}
    for kind in ("initContainers", "containers"):
        spec[kind] = [
            {
                "name": each.get("name", f"c{at}"),
                "resources": {"limits": {GPU: "1", "nvidia.com/gpucores": "10"} if each["gpu"] else {}},
                "securityContext": {"privileged": each.get("privileged", False)},
            }
            for at, each in enumerate(pod.get(kind, []))
        ]
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def _patched(raw: dict[str, Any], answer: PodAdmission) -> list[str]:
    if not answer.allowed:
        return []
    return [operation["path"] for operation in admission.patch(raw, admission.applied(raw, answer.changes))]


@cases.each("hami-core/webhook-mutate.yaml")
def test_nvidia_changes_a_container_as_its_vector_says(case: cases.Case) -> None:
    spec = _configured(case.given["config"])
    container = notation.container(case.given["container"])
    pod = notation.pod(container, runtime_class=case.given["pod"].get("runtimeClassName"))
    expect = dict(case.expect)
    error = expect.pop("error", None)
    if error is not None:
        with pytest.raises(AdmissionDeniedError) as caught:
            nvidia.admit(spec, container, pod)
        assert caught.value.code == 500
        assert _matches(error, caught.value.message)
        return
    claimed, changes = nvidia.admit(spec, container, pod)
    for change in changes:
        pod = applied(pod, PodChange(None if change.kind == "runtimeClassName" else 0, change))
    env = {each.key: each.value for each in changes if each.kind == "env"}
    assert _unmet(expect, claimed=claimed, pod=pod, env=env) == []


def _configured(config: Mapping[str, Any]) -> VendorSpec:
    spec = notation.vendor("NVIDIA", config)
    if "resourceMemoryName" in config:
        return replace(spec, resources=replace(spec.resources, memory=config["resourceMemoryName"]))
    return spec


def _matches(error: Mapping[str, str], message: str) -> bool:
    text = error["text"].replace("<name>", "main")
    return message == text if error["match"] == "exact" else message.startswith(text)


def _unmet(expect: Mapping[str, Any], *, claimed: bool, pod: Pod, env: Mapping[str, str]) -> list[str]:
    """The stated members that are not so."""
    container = pod.containers[0]
    met: dict[str, Callable[[Any], bool]] = {
        "found": lambda stated: claimed is stated,
        "limits_after": lambda stated: stated == {key: str(container.limits.get(key)) for key in stated},
        "limits_absent": lambda stated: not set(stated) & set(container.limits),
        "requests_after": lambda stated: stated == {key: str(container.requests.get(key)) for key in stated},
        "env_added": lambda stated: stated == {key: env.get(key) for key in stated},
        "env_absent": lambda stated: not set(stated) & set(env),
        "runtimeClassName": lambda stated: pod.runtime_class == stated,
    }
    return [member for member, stated in expect.items() if not met[member](stated)]


_WORDS = {"Ascend": "Ascend910B3"}
"""Any chip with templates will do."""


@cases.each("hami-core/webhook-quota.yaml")
def test_quota_at_admission_is_that_of_its_vector(case: cases.Case) -> None:
    given = case.given
    config = {} if given["factor"] is None else {"memoryFactor": given["factor"]}
    spec = notation.vendor(_WORDS.get(given["vendor"], given["vendor"]), config)
    registry = Registry([spec])
    names = {"memory": spec.resources.memory, "cores": spec.resources.cores}
    hard = {f"limits.{names[name]}": amount * NANO for name, amount in given["limits"].items()}
    used = {spec.name: (given["used"].get("memory", 0), given["used"].get("cores", 0))}
    left = dict(headroom(NamespaceQuota(namespace="default", hard=hard), used, registry))
    containers = [_container(spec, row, ContainerKind.INIT) for row in given["init"]]
    containers += [_container(spec, row, ContainerKind.APP) for row in given["app"]] or [
        builders.a_container(name="idle")
    ]
    answer = admit(notation.pod(*containers), registry, WebhookSettings(), left)
    assert answer.allowed is case.expect["fits"]
    assert answer.message == ("" if answer.allowed else "exceeding resource quota")


def _container(spec: VendorSpec, row: Mapping[str, int], kind: ContainerKind) -> Container:
    names = spec.resources
    limits = {names.count: row["nums"], names.memory: row.get("mem"), names.cores: row.get("cores")}
    return builders.a_container({name: amount for name, amount in limits.items() if amount is not None}, kind=kind)
