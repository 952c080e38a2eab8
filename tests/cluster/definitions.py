"""Definitions of custom resources (CRDs), as releases of peers publish them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.waiting import wait_until

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class _Loader(yaml.CSafeLoader):
    """A lone ``=`` is text, as in Kubernetes; PyYAML knows it as a type of YAML 1.1 that it cannot make."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def published(folder: Path) -> list[Object]:
    """The definitions among the files of a folder. Lines with Helm's templates are left out: labels."""
    found: list[Object] = []
    for path in sorted(folder.glob("*.yaml")):
        text = "\n".join(line for line in path.read_text().splitlines() if "{{" not in line)
        listed = yaml.load_all(text, Loader=_Loader)
        found += [each for each in listed if isinstance(each, dict) and each.get("kind") == "CustomResourceDefinition"]
    return found


def install(plane: ControlPlane, definitions: Iterable[Object]) -> None:
    """Creates them, and waits until the API server serves them."""
    names = []
    for body in definitions:
        plane.apply(_PATH, body)
        names.append(body["metadata"]["name"])

    def missing() -> list[str]:
        return [name for name in names if not _is_established(plane.api.get(f"{_PATH}/{name}"))]

    wait_until(lambda: not missing(), "the definitions are established", show=lambda: ", ".join(missing()))


def _is_established(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
