"""A claim that a pod names in several volumes, as one volume.

TorchX makes a volume of each mount, so that a claim for data and for compiled graphs becomes two. Kubelets before 1.35
wait for both for ever (Kubernetes PR 122140).
"""

from __future__ import annotations

from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import CONTAINER_LISTS


def one_per_claim(spec: Json, place: str) -> tuple[Json, tuple[str, ...]]:
    """The ``spec`` of a pod with one volume for each claim, and the claims that had more; containers keep their mounts.

    A volume that may only be read stays apart from one that may be written. Raises ``WireError``.
    """
    kept: dict[tuple[str, bool], str] = {}
    names: dict[str, str] = {}
    volumes: list[object] = []
    for at, raw in enumerate(fields.items(spec, "volumes", place)):
        where = f"{fields.path(place, 'volumes')}[{at}]"
        volume = fields.whole(raw, where)
        claim = fields.member(volume, "persistentVolumeClaim", where)
        named = fields.text(claim, "claimName", where)
        name = fields.text(volume, "name", where)
        first = kept.setdefault((named, bool(claim.get("readOnly"))), name) if named else name
        if first == name:
            volumes.append(raw)
        else:
            names[name] = first
    if not names:
        return spec, ()
    spec = {**spec, "volumes": volumes}
    for group in CONTAINER_LISTS:
        if containers := fields.items(spec, group, place):
            spec = {**spec, group: [_renamed(each, names, fields.path(place, group)) for each in containers]}
    merged = set(names.values())
    return spec, tuple(claim for (claim, _), name in kept.items() if name in merged)


def _renamed(container: Json, names: dict[str, str], place: str) -> Json:
    """The container with its mounts of volumes under their new names."""
    mounts = [_mount(each, names) for each in fields.items(container, "volumeMounts", place)]
    return {**container, "volumeMounts": mounts} if mounts else container


def _mount(mount: object, names: dict[str, str]) -> object:
    if not isinstance(mount, dict) or not isinstance(name := mount.get("name"), str):
        return mount
    return {**mount, "name": names.get(name, name)}
