"""The walk over the texts of a cluster: which stay, and which get a pseudonym, by what they are.

A walk is made twice: once to collect the secret texts, then to replace them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import orjson

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.snapshots.pseudonyms import Named, PseudonymSource
from hami_plugins.inputs.snapshots.published import KINDS, NUMBERED, Published
from hami_plugins.inputs.snapshots.trimmer import GROUP_KEYS, QUEUE_KEYS, TASK_KEYS
from hami_plugins.wire import karpenter, lenient, node_groups
from hami_plugins.wire.pods import containers_of

NODE_KEYS: Final = (
    "hami.io/vgpu-node",
    "volcano.sh/vgpu-node",
    "mthreads.com/predicate-node",
    "aws.amazon.com/predicate-node",
    "kubernetes.io/hostname",
)
"""Annotations and labels that name a node."""

NAMESPACE_KEYS: Final = ("kubernetes.io/metadata.name", "volcano.sh/job-namespace")
SCHEDULER_KEYS: Final = ("scheduling.koordinator.sh/scheduler-name",)
NODE_GROUP_KEYS: Final = (node_groups.GROUP_LABEL, "alpha.eksctl.io/nodegroup-name")

_NAMED_BY_KEY: Final[Mapping[str, Named]] = {
    key: kind
    for keys, kind in (
        (GROUP_KEYS, Named.GROUP),
        (QUEUE_KEYS, Named.QUEUE),
        (TASK_KEYS, Named.TASK),
        (NODE_KEYS, Named.NODE),
        (NAMESPACE_KEYS, Named.NAMESPACE),
        (SCHEDULER_KEYS, Named.SCHEDULER),
        (NODE_GROUP_KEYS, Named.NODE_GROUP),
        ((karpenter.POOL_LABEL,), Named.NODE_POOL),
    )
    for key in keys
}

_TOKEN: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r"|(?<![0-9A-Za-z:])(?P<bus>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2})(?P<slot>:[0-9A-Fa-f]{2}\.[0-7])(?![\w:.])"
    r"|(?<![\w:])pci(?P<root>[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2})(?![\w:.])"
    r"|(?P<escape>\\.)"
    r"|(?P<word>[^\s,:;|\"'\[\]{}=\\()]+)",
    re.ASCII,
)
"""The pieces of a text that say something; everything between them is the format."""

_KUBELET: Final = re.compile(r"v\d{1,3}\.\d{1,3}\.\d{1,3}(?:-eks-|-gke\.)?", re.ASCII)
_OF_NODE: Final = re.compile(
    r"(.+)(-(?:AWSNeuron|Enflame|GCU|cambricon-mlu|enflame-drs|kunlun|metax|mthreads)-\d{1,5})", re.ASCII
)
"""Ids that vendors without a register make up (``engine.inventories.cards``)."""

_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_VERSION: Final = re.compile(r"v\d{1,2}(?:(?:alpha|beta)\d{1,2})?", re.ASCII)


class Walk:
    """Goes over objects and asks for the pseudonym of every text that is not published."""

    def __init__(self, names: PseudonymSource, published: Published, registry: Registry) -> None:
        self.names = names
        self._published = published
        self._models = frozenset(
            key for spec in registry for key in (spec.keys.use_models, spec.keys.avoid_models) if key
        )
        self._by_container = frozenset(spec.keys.more for spec in registry if spec.keys.more)
        self._containers: Mapping[str, str] = {}

    def enter(self, raw: Mapping[str, object]) -> None:
        """Begins an object, whose containers are numbered."""
        self._containers = _container_names(raw.get("spec"))

    def whole(self, value: object) -> object:
        """A value of which nothing is known: every text in it, keys too, that is not published gets a pseudonym."""
        if isinstance(value, str):
            return self.word(value)
        if isinstance(value, Mapping):
            return {self.word(str(key)): self.whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.whole(inner) for inner in value]
        return value

    def word(self, text: str) -> str:
        """A text that is one word. A device that is called after its node is called after the node's pseudonym."""
        match = _OF_NODE.fullmatch(text)
        if match is not None:
            return self.names.name(Named.NODE, match[1]) + match[2]
        return text if self._published.is_word(text) else self.names.value(text)

    def kubelet(self, text: str) -> str:
        """A version, and the provider whose build it is; nothing else of a build."""
        match = _KUBELET.match(text)
        return match[0] if match is not None else self.secret(text)

    def reason(self, text: str) -> str:
        """A word whose beginning counts, with underscores between its parts."""
        return "_".join(self.word(part) for part in text.split("_"))

    def secret(self, text: str) -> str:
        """A text that never stays."""
        return self.names.value(text) if text else text

    def text(self, text: str) -> str:
        """A text in any format: its words one by one, with everything between them as it is."""
        if "\\" in text:
            text = _without_escapes(text)
        return _TOKEN.sub(self._piece, text)

    def _piece(self, match: re.Match[str]) -> str:
        if match["word"] is not None:
            return self.word(match["word"])
        if match["bus"] is not None:
            return f"{self.names.bus(match['bus'].lower())}{match['slot']}"
        if match["root"] is not None:
            return f"pci{self.names.bus(match['root'].lower())}"
        return match[0]

    def key(self, key: str) -> str:
        """The key of a label, an annotation or a taint."""
        return key if not key or self._published.is_key(key) else self.names.key(key)

    def resource(self, name: str) -> str:
        """The name of a resource, as nodes, containers, queues and quotas write it."""
        if self._published.is_resource(name):
            return name
        for prefix in ("requests.", "limits.", "count/"):
            if name.startswith(prefix) and len(name) > len(prefix):
                return prefix + self.names.key(name[len(prefix) :])
        return self.names.key(name) if name else name

    def label(self, key: str, value: str) -> str:
        """The value of a label, of a taint, or of what selects by them."""
        kind = _NAMED_BY_KEY.get(key)
        if kind is not None:
            return self.names.name(kind, value)
        if key not in NUMBERED and _WHOLE.fullmatch(value):
            return self.names.number(key, value)
        return self.word(value)

    def annotation(self, key: str, value: str) -> str:
        """The value of an annotation that a vendor or a scheduler reads."""
        kind = _NAMED_BY_KEY.get(key)
        if kind is not None:
            return self.names.name(kind, value)
        if key in self._models:
            return _TOKEN.sub(self._model, value)
        if key in self._by_container:
            pieces = (piece.partition("=") for piece in value.split(";"))
            return ";".join(f"{self.container(name)}{equals}{self.text(rest)}" for name, equals, rest in pieces)
        return self.text(value)

    def _model(self, match: re.Match[str]) -> str:
        return match[0] if self._published.is_part_of_a_model(match[0]) else self._piece(match)

    def container(self, name: str) -> str:
        """The name of a container of the pod."""
        return self._containers.get(name) or self.word(name)

    def version(self, version: str) -> str:
        """The API of an object."""
        group, slash, number = version.rpartition("/")
        known = (not slash or group in KINDS) and _VERSION.fullmatch(number)
        return version if known else self.names.value(version)


def _container_names(spec: object) -> dict[str, str]:
    """The names of a pod's containers, by number."""
    names = (lenient.text(each.get("name")) for each, _ in containers_of({"spec": spec}))
    return {name: f"c{at}" for at, name in enumerate(dict.fromkeys(filter(None, names)))}


def _without_escapes(text: str) -> str:
    """A JSON text without escapes that could hide a word; any other text as it is."""
    try:
        return orjson.dumps(orjson.loads(text)).decode()
    except ValueError:
        return text
