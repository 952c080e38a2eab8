"""Objects as their authors would submit them again: without what the API server, controllers and schedulers wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.model.edits import DropEdit, Path, made
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import GROUP_KEY
from koordinator_adapter.core.translation.model import at

_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
_APPLIED: Final[Path] = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
_JOB_LABELS: Final = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
"""By which a Job of Kubernetes finds its pods; its controller adds them to the template."""

_WRITTEN: Final[Mapping[tuple[str, str], tuple[Path, ...]]] = {
    ("v1", "Pod"): (("spec", "nodeName"), ("spec", "ephemeralContainers"), _APPLIED),
    ("batch.volcano.sh/v1alpha1", "Job"): (_APPLIED,),
    ("batch/v1", "Job"): (
        _APPLIED,
        ("spec", "selector"),
        *(("spec", "template", "metadata", "labels", label) for label in _JOB_LABELS),
        *(("metadata", "labels", label) for label in _JOB_LABELS),
    ),
}
"""Fields that objects of a kind have after creation, and that are refused or mean something else in new ones."""


def submission(raw: Mapping[str, object]) -> Json:
    """The part of an object that its author wrote, so that it can be created again. Never raises."""
    kept = {name: value for name, value in raw.items() if name != "status"}
    metadata = lenient.inside(raw, "metadata")
    kept["metadata"] = {name: metadata[name] for name in _KEPT_METADATA if name in metadata}
    kind = (str(raw.get("apiVersion", "v1")), str(raw.get("kind", "")))
    paths: list[Path] = []
    if at(raw, ("spec", "manualSelector")) is not True:
        paths += _WRITTEN.get(kind, ())
    if at(raw, ("metadata", "annotations", GROUP_KEY)) == f"podgroup-{metadata.get('uid')}":
        # Volcano's controller makes a group of one for a pod that names none.
        paths.append(("metadata", "annotations", GROUP_KEY))
    return made(kept, [DropEdit(path) for path in paths if at(kept, path) is not None])
