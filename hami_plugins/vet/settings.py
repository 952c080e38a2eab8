"""What ``vet`` assumes of the cluster that the manifests are for."""

from __future__ import annotations

from dataclasses import dataclass, field

from hami_plugins.engine.intake import Rules
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class VetSettings:
    """``rules`` is how the cluster admits and ranks pods, ``namespace`` where objects go that do not say.

    ``volcano`` are the names under which Volcano's scheduler runs, ``ignore`` rules (by id or name) that are not looked
    at. ``release`` is Volcano's and ``assigner`` who allocates its cards; without them the objects are asked.
    """

    rules: Rules = field(default_factory=Rules)
    namespace: str = "default"
    volcano: frozenset[str] = frozenset({VOLCANO})
    ignore: frozenset[str] = frozenset()
    release: Version | None = None
    assigner: DeviceAssigner | None = None
