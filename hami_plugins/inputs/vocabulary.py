"""Every word of the registered vendors and what it is: a resource, an annotation, or another component's record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.engine import annotate
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import scoring_weights

POLICY_KEYS: Final = (NODE_POLICY_KEY, DEVICE_POLICY_KEY, scoring_weights.KEY)
"""Preferences that HAMi's scheduler reads whatever the vendor."""

HAMI_DOMAIN: Final = "hami.io"

IGNORE_KEY: Final = "hami-plugins.io/vet-ignore"
"""By this annotation the author of an object asks ``vet`` to overlook findings."""

_GENERAL: Final = "scheduling."
"""Domains of keys that schedulers read for more than devices."""


DEAD_KEYS: Final[Mapping[str, str]] = {
    "birentech.com/use-biren": "birentech.com/use-gpuuuid",
    "birentech.com/nouse-biren": "birentech.com/nouse-gpuuuid",
    "cambricon.com/use-mlutype": "cambricon.com/use-gpuuuid",
    "cambricon.com/nouse-mlutype": "cambricon.com/nouse-gpuuuid",
    "vastaitech.com/use-va": "vastaitech.com/use-gpuuuid",
    "vastaitech.com/nouse-va": "vastaitech.com/nouse-gpuuuid",
}
"""Model selectors that HAMi defines and never reads, and the selector by id of the same vendor."""

WRONG_VOLCANO_KEYS: Final[Mapping[str, str]] = {
    "volcano.sh/queue-name": "scheduling.volcano.sh/queue-name",
    "scheduling.volcano.sh/group-name": "scheduling.k8s.io/group-name",
    "volcano.sh/group-name": "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/queue": "scheduling.volcano.sh/queue-name",
}
"""Keys that look like the ones Volcano reads on pods outside its own jobs."""

NODE_KEYS: Final = frozenset(
    {
        "hami.io/device-cordon",
        "hami-vnpu-core",
        "metax-tech.com/gpu.topology.losses",
        "metax-tech.com/gpu.topology.scores",
    }
)
"""Annotations of nodes that vendors list among their inputs."""

BOOKKEEPING_KEYS: Final = frozenset(
    {
        *annotate.BOOKKEEPING,
        "volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate",
        "volcano.sh/bind-phase", "volcano.sh/bind-time",
    }
)  # fmt: skip
"""Annotations that schedulers and node agents write on pods, besides the keys that vendors name."""


def domain(word: str) -> str:
    """The part before the last slash."""
    return word.rpartition("/")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words by meaning. ``readers`` says which vendors read an annotation of a pod; the policy keys have no readers.

    ``specs`` are the vendors, ``selectors`` the keys among them that list ids or models, ``written`` those that
    schedulers and agents write, ``of_nodes`` those that belong on nodes.
    """

    specs: tuple[VendorSpec, ...]
    resources: Mapping[str, VendorSpec]
    domains: frozenset[str]
    readers: Mapping[str, tuple[VendorSpec, ...]]
    selectors: frozenset[str]
    written: frozenset[str]
    of_nodes: frozenset[str]

    @classmethod
    def of(cls, registry: Registry) -> Vocabulary:
        """The words of some vendors."""
        readers: dict[str, list[VendorSpec]] = {}
        written = set(BOOKKEEPING_KEYS)
        of_nodes = set(NODE_KEYS)
        selectors: set[str] = set()
        for spec in registry:
            keys = spec.keys
            listed = _set((*keys.use_ids, *keys.avoid_ids, keys.use_models, keys.avoid_models))
            selectors |= listed
            for key in (*listed, *_set((keys.mode, *keys.inputs))):
                if not key.startswith(_GENERAL):
                    readers.setdefault(key, []).append(spec)
            written |= {*keys.written(), *keys.of_webhook}
            of_nodes |= _set((keys.register, keys.handshake, keys.pair_scores, keys.lock))
        for key in of_nodes:
            readers.pop(key, None)
        resources = registry.resources
        return cls(
            specs=tuple(registry),
            resources=resources,
            domains=frozenset({domain(word) for word in (*resources, *readers)} - {"", HAMI_DOMAIN}),
            readers={key: tuple(specs) for key, specs in readers.items()},
            selectors=frozenset(selectors),
            written=frozenset(written - readers.keys()),
            of_nodes=frozenset(of_nodes),
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every annotation that a pod may carry, in order."""
        return tuple(sorted({*self.readers, *POLICY_KEYS}))

    def own_selector(self, key: str, specs: Iterable[VendorSpec]) -> tuple[str, ...]:
        """What these vendors call the selector that a strange ``[no]use-...`` key of their domain seems to mean."""
        home, name = domain(key), key.rpartition("/")[2].lower()
        if "use" not in name:
            return ()
        avoids = name.startswith(("nouse", "no-use", "no_use"))
        found: dict[str, None] = {}
        for spec in specs:
            if home not in {domain(resource) for resource in spec.resources.all()}:
                continue
            if "type" in name or "model" in name:
                keys: tuple[str, ...] = (spec.keys.avoid_models if avoids else spec.keys.use_models,)
            else:
                keys = spec.keys.avoid_ids if avoids else spec.keys.use_ids
            found.update(dict.fromkeys(each for each in keys if each))
        return tuple(found)


def speaks(dialect: Dialect, specs: Iterable[VendorSpec]) -> tuple[VendorSpec, ...]:
    """The vendors of one dialect."""
    return tuple(spec for spec in specs if spec.dialect is dialect)


def _set(words: Iterable[str]) -> set[str]:
    return {word for word in words if word}
