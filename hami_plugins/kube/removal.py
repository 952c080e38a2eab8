"""What commands that remove a product from a cluster share: a release of a chart, and objects that may be gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Collection, KubeApi
from hami_plugins.wire.fields import Json

PATIENCE: Final = 120.0
"""Seconds that all pods of what is removed together may take to end."""

PAUSE: Final = 0.5

FOREGROUND: Final[Json] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
"""Deletes a workload such that it is there until its pods are gone."""

_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Release:
    """The identity of a release: its namespace, and the prefix of its objects' names."""

    namespace: str
    name: str

    @classmethod
    def of(cls, text: str) -> Self:
        """From ``NAMESPACE/NAME``. Raises ``ConfigError``."""
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ConfigError(f"--release {text}: write NAMESPACE/NAME, the name being that of its objects")
        return cls(namespace, name)


def find(api: KubeApi, path: str) -> Json | None:
    """The object, ``None`` where there is none. Raises ``KubeError``."""
    try:
        return api.get(path)
    except KubeError as error:
        if error.status == _NOT_FOUND:
            return None
        raise


def remove(api: KubeApi, path: str, body: Json | None = None) -> None:
    """Delete an object, with options such as ``FOREGROUND``; one that is gone is well. Raises ``KubeError``."""
    try:
        api.delete(path, body=body)
    except KubeError as error:
        if error.status != _NOT_FOUND:
            raise


def late(
    api: KubeApi,
    workloads: Sequence[str],
    *,
    patience: float = PATIENCE,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Wait until what was deleted is gone; what is still there after ``patience`` seconds. Raises ``KubeError``."""
    waited = 0.0
    while left := tuple(path for path in workloads if find(api, path)):
        if waited >= patience:
            break
        sleep(PAUSE)
        waited += PAUSE
    return left


def ended(api: KubeApi, workload: str, *, dry_run: bool, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Deletes a workload and waits for its pods; yields its path, also on a dry run, and nothing where it is gone.

    Raises ``KubeError``, also where the pods do not end in time.
    """
    if find(api, workload) is None:
        return
    if not dry_run:
        remove(api, workload, FOREGROUND)
        if late(api, (workload,), sleep=sleep):
            raise KubeError(f"{workload}: its pods have not ended within {PATIENCE:g} s; see why, and try again")
    yield workload


def without_keys(
    api: KubeApi, collection: Collection, keys: Mapping[str, Sequence[str]], *, dry_run: bool
) -> Iterator[str]:
    """Removes annotations and labels (``keys``, by the member of ``metadata``) from pods or nodes.

    Yields what is removed, or would be on a dry run. An object that is deleted meanwhile is skipped. Raises
    ``KubeError``.
    """
    for page in api.pages(collection):
        for raw in page:
            metadata = raw["metadata"]
            there = {kind: held for kind, names in keys.items() if (held := _held(metadata, kind, names))}
            if not there:
                continue
            name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
            path = paths.pod(namespace, name) if namespace else paths.node(name)
            if not dry_run:
                _patch(api, path, {"metadata": {kind: dict.fromkeys(held) for kind, held in there.items()}})
            listed = ", ".join(dict.fromkeys(key for held in there.values() for key in held))
            yield f"{collection.kind.lower()} {namespace}{'/' if namespace else ''}{name}: {listed}"


def _held(metadata: Json, kind: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in (metadata.get(kind) or {})]


def _patch(api: KubeApi, path: str, body: Json) -> None:
    try:
        api.merge_patch(path, body)
    except KubeError as error:
        if error.status != _NOT_FOUND:
            raise
