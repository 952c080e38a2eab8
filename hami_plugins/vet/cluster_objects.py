"""The cluster's own objects that ``vet`` reads in addition to manifests: nodes, queues, gangs, and their indicators.

They come from a dump whose text is not kept, so findings about them have no line; the object is named, and the path
starts at the top of the dump.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.inputs.list_reader import SNAPSHOT_KIND
from hami_plugins.inputs.manifests import Document, Path
from hami_plugins.inputs.manifests.reader import Text
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.vet import known_managers
from hami_plugins.vet.resources import Subject
from hami_plugins.wire import koordinator_devices
from hami_plugins.wire.lenient import inside
from hami_plugins.wire.pages import with_kind
from hami_plugins.wire.yaml_text import NOWHERE, TextPosition, YamlDocument

_LOOKED_AT: Final = frozenset({"Node", "Queue", "PodGroup", "MutatingAdmissionPolicy", "ResourceSlice", "DeviceClass"})
_TELLING: Final = frozenset({"Deployment", "MutatingWebhookConfiguration"})
_VERSIONS: Final = {
    **dict.fromkeys(("Queue", "PodGroup"), "scheduling.volcano.sh/v1beta1"),
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}
_TOP: Final = TextPosition(1, 1)


class ClusterObjects(NamedTuple):
    """What a plan sees of a cluster, and the objects of it that are judged themselves."""

    snapshot: ClusterSnapshot | None = None
    objects: tuple[Document, ...] = ()


def of(raw: object, source: str) -> Iterator[Document]:
    """The relevant objects of one document of a dump; lists are taken apart, values other than objects omitted."""
    file = Text("", source)
    file.places = {1: YamlDocument(raw, 1, _TOP, NOWHERE)}
    waiting: list[tuple[Path, object]] = [((), raw)]
    while waiting:
        path, each = waiting.pop()
        if not isinstance(each, Mapping):
            continue
        kind, items = str(each.get("kind", "List")), each.get("items")
        if isinstance(items, list) and (kind.endswith("List") or kind == SNAPSHOT_KIND):
            implied = "" if kind == SNAPSHOT_KIND else kind.removesuffix("List")
            waiting.extend(((*path, "items", at), with_kind(items[at], implied)) for at in reversed(range(len(items))))
        elif kind in _LOOKED_AT or kind in _TELLING or _tells_of_managers(each, kind):
            yield Document(raw=_complete(each, kind), number=1, file=file, base=path)


def _tells_of_managers(raw: Mapping[str, object], kind: str) -> bool:
    """Whether an object shows which component allocates devices; of all the pods of a cluster few do."""
    match kind:
        case "Pod":
            return known_managers.program_of(raw) is not None
        case "DaemonSet":
            return known_managers.program_of(inside(raw, "spec", "template")) is not None
        case koordinator_devices.KIND:
            return koordinator_devices.is_one(raw)
        case _:
            return kind == "ResourceSlice"


def _complete(raw: Mapping[str, object], kind: str) -> Mapping[str, object]:
    """The object with its version, which typed lists of the API leave out of their items."""
    if kind in _VERSIONS and raw.get("apiVersion", "v1") == "v1":
        return {**raw, "apiVersion": _VERSIONS[kind]}
    return raw


def is_looked_at(subject: Subject) -> bool:
    """Whether the object itself is judged; the others only tell what is installed."""
    return subject.kind in _LOOKED_AT
