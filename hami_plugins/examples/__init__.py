"""Fleets and workloads that the demo, the documentation and the tests all use, as package data.

``fleets/<name>.yaml`` are declared fleets (``inputs.fleets``), ``prices/<name>.yaml`` price tables,
``workloads/<name>.yaml`` manifests as one would hand them to kubectl, ``live/<name>.yaml`` the other objects of the
demo: the cards of a node, a job that a gang waits for, one that has to wait, pods that fill the last cards, and pods
for which others are evicted. ``vendor/`` has the templates of a package that adds a vendor. Files are read on demand.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from hami_plugins.errors import ManifestError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def fleet_names() -> tuple[str, ...]:
    """The fleets that are shipped, sorted."""
    return _names("fleets")


def fleet_text(name: str) -> str:
    """A shipped fleet; raises ``ManifestError`` with the known names for any other."""
    return _text("fleets", name)


def workload_names() -> tuple[str, ...]:
    """The workloads that are shipped, in the order in which the demo submits them."""
    return _names("workloads")


def workload_text(name: str) -> str:
    """A shipped workload; raises ``ManifestError`` with the known names for any other."""
    return _text("workloads", name)


def workload_files() -> tuple[tuple[str, str], ...]:
    """Every shipped workload as file name and text, in the order in which the demo submits them."""
    return tuple((f"{name}.yaml", workload_text(name)) for name in workload_names())


def live_text(name: str) -> str:
    """A file of the demo's live part; raises ``ManifestError`` with the known names for any other."""
    return _text("live", name)


def price_names() -> tuple[str, ...]:
    """The price tables that are shipped, sorted."""
    return _names("prices")


def price_text(name: str) -> str:
    """A shipped price table; raises ``ManifestError`` with the known names for any other."""
    return _text("prices", name)


def vendor_template(name: str) -> str:
    """The template of a file of a package that adds a vendor."""
    return (_folder("vendor") / f"{name}.in").read_text(encoding="utf-8")


def _folder(kind: str) -> Traversable:
    return resources.files(__name__) / kind


def _names(kind: str) -> tuple[str, ...]:
    files = (entry.name for entry in _folder(kind).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def _text(kind: str, name: str) -> str:
    known = _names(kind)
    if name not in known:
        raise ManifestError(f"no example {name[:60]!r} among the {kind}; known are {', '.join(known)}")
    return (_folder(kind) / f"{name}.yaml").read_text(encoding="utf-8")
