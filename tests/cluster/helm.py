"""Helm, version 3 or 4, and what a cluster holds before and after it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.api import Api, ApiError, Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.waiting import wait_until

UMBRELLA: Final = Path("charts/hami-plugins").absolute()
CHARTS: Final = UMBRELLA / "charts"
VOLCANO_VGPU: Final = CHARTS / "volcano-vgpu"
ALLOCATOR: Final = CHARTS / "allocator"
KOORDINATOR: Final = CHARTS / "koordinator-adapter"
_REGISTRY: Final = {"global": {"imageRegistry": "registry.example"}}
_WITH_CARDS: Final = {"agent": {"nodeSelector": {"gpu": "on"}}}
NEEDED: Final[Mapping[Path, Mapping[str, Any]]] = {
    UMBRELLA: {**_REGISTRY, "volcano-vgpu": _WITH_CARDS},
    VOLCANO_VGPU: {**_REGISTRY, **_WITH_CARDS},
    ALLOCATOR: _REGISTRY,
    KOORDINATOR: _REGISTRY,
}
"""What a chart cannot know, and asks for: where its images are, and which nodes have cards."""

VERSIONS: Final = ("helm3", "helm4")
KUBERNETES: Final = "1.34.4"

PASSING: Final = frozenset({"events", "leases", "endpoints", "endpointslices", "controllerrevisions", "replicasets"})
"""Kinds that others make and drop at any time. Leases are looked at by name (``leases``)."""


class HelmError(Exception):
    """Helm refused; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Helm:
    """One of the programs, with a home of its own, before one cluster or none.

    Without ``hooks`` changes run no Jobs, for clusters where no pod runs.
    """

    program: Path
    home: Path
    kubeconfig: Path | None = None
    hooks: bool = True

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None, timeout: float = 240.0) -> str:
        """What it prints. Raises ``HelmError``."""
        self.home.mkdir(parents=True, exist_ok=True)
        files = ["--values", "-"] if values is not None else []
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "HELM_NAMESPACE": "default"}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        done = subprocess.run(
            [str(self.program), *arguments, *files],
            input=None if values is None else yaml.safe_dump(dict(values)),
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def template(
        self,
        chart: Path,
        values: Mapping[str, Any] | None = None,
        *,
        name: str = "one",
        namespace: str = "here",
        kubernetes: str = KUBERNETES,
    ) -> str:
        """What a chart renders to, without a cluster, with what it needs. Raises ``HelmError``."""
        flags = ["--namespace", namespace, "--kube-version", kubernetes]
        return self.run("template", name, str(chart), *flags, values=laid(values or {}, NEEDED.get(chart, {})))

    def change(
        self, verb: str, name: str, namespace: str, *, values: Mapping[str, Any], chart: Path = VOLCANO_VGPU
    ) -> str:
        """``install`` or ``upgrade``. Raises ``HelmError``."""
        flags = [] if self.hooks else ["--no-hooks"]
        return self.run(verb, name, str(chart), "--namespace", namespace, *flags, values=values)


def laid(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
    """Values over others, member by member."""
    found = dict(lower)
    for key, held in upper.items():
        below = found.get(key)
        found[key] = laid(held, below) if isinstance(held, Mapping) and isinstance(below, Mapping) else held
    return found


def objects(rendered: str) -> list[Object]:
    """The objects of what was rendered."""
    return [each for each in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if each]


def of_kind(found: Sequence[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [each for each in found if each["kind"] == kind]


def pod_specs(found: Sequence[Object]) -> Iterator[tuple[str, Any]]:
    """The pods that objects are or make, each by the name of its object."""
    for each in found:
        if each["kind"] == "Pod":
            yield each["metadata"]["name"], each["spec"]
        elif "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def collections(api: Api) -> Iterator[tuple[str, str, Object]]:
    """Every resource that the API server serves: the path of its group and version, its name, its description."""
    groups = ["/api/v1"]
    groups += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]]
    for group in groups:
        for resource in api.get(group)["resources"]:
            if "/" not in resource["name"] and "list" in resource["verbs"]:
                yield group, resource["name"], resource


OF_NAMESPACES: Final = "kube-root-ca.crt"
"""A controller keeps this ConfigMap in each namespace, some time after the namespace is created."""


def everything(api: Api) -> frozenset[str]:
    """Every object of the cluster by kind, namespace and name, but for those that come and go by themselves."""
    found: set[str] = set()
    for group, name, _resource in collections(api):
        if name in PASSING:
            continue
        (listed,) = wait_until(partial(_listed, api, f"{group}/{name}"), f"{name} are listed")
        for each in listed:
            metadata = each["metadata"]
            if metadata["name"] != OF_NAMESPACES:
                found.add(f"{group}/{name} {metadata.get('namespace', '')}/{metadata['name']}")
    return frozenset(found)


def wait_as_before(api: Api, before: frozenset[str]) -> None:
    """Until nothing is there that was not there before: the garbage collector removes what owners leave."""
    wait_until(
        lambda: everything(api) <= before,
        "everything that was made is gone",
        interval=0.5,
        show=lambda: "\n".join(sorted(everything(api) - before)),
    )


def _listed(api: Api, path: str) -> tuple[list[Object]]:
    """The objects of a collection, none where it cannot be listed; the API server may be about to set it up."""
    try:
        return (api.items(path),)
    except ApiError as error:
        if error.status in {403, 404, 405}:
            return ([],)
        raise


def is_hook(body: Object) -> bool:
    """Whether Helm creates it at an event of the release, not with it."""
    return "helm.sh/hook" in (body["metadata"].get("annotations") or {})


def path_of(api: Api, body: Object, namespace: str) -> str:
    """The collection that an object belongs to."""
    version = body["apiVersion"]
    group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    for resource in api.get(group)["resources"]:
        if resource["kind"] == body["kind"] and "/" not in resource["name"]:
            inside = f"/namespaces/{body['metadata'].get('namespace', namespace)}" if resource["namespaced"] else ""
            return f"{group}{inside}/{resource['name']}"
    raise AssertionError(f"the API server serves no {version} {body['kind']}")


def dry_run(plane: ControlPlane, body: Object, namespace: str) -> None:
    """Has the API server say whether it would take an object, every field of it. Raises ``ApiError``."""
    asked = {"dryRun": "All", "fieldValidation": "Strict"}
    plane.api.request("POST", path_of(plane.api, body, namespace), json.loads(json.dumps(body)), query=asked)
