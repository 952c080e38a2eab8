"""MIG instances that NVIDIA's device plugin offers: what its resources count, and which profiles cards have.

With the strategy ``mixed`` each profile is a resource of its own (``nvidia.com/mig-1g.10gb``); with ``single`` all
instances of a node are alike, and ``nvidia.com/gpu`` counts them. Feature discovery says which in labels.
kube-scheduler counts both like any extended resource; HAMi allocates neither.

Sources: NVIDIA k8s-device-plugin 0.19 (``internal/rm``, ``internal/lm``); the profiles are those of NVIDIA's MIG User
Guide (``supported-mig-profiles``) and of its GPU Operator's ``default-mig-parted-config``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.quantity import NANO

PREFIX: Final = "nvidia.com/mig-"
"""Prefix of the resources of the strategy ``mixed``; a profile follows, with dots in place of plus signs."""

CARDS: Final = "nvidia.com/gpu"
"""What NVIDIA's device plugin calls whole cards, and with the strategy ``single`` instances."""

STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
SINGLE: Final = "single"
MIXED: Final = "mixed"

CUT: Final = "-MIG-"
"""In the product label of a node with the strategy ``single``: the model is before it, the profile after it."""

PROFILES: Final[Mapping[str, tuple[str, ...]]] = {
    "A30": ("1g.6gb", "2g.12gb", "4g.24gb"),
    "A100 40GB": ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    "A100 80GB, H100 80GB": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.79gb", "7g.80gb"),
    "H100 94GB": ("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    "H20, GH200 96GB": ("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    "GH200 144GB": ("1g.18gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"),
    "H200": ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    "B200": ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    "GB200": ("1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb", "7g.189gb"),
    "B300": ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
    "GB300": ("1g.35gb", "1g.70gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"),
    "RTX PRO 6000": ("1g.24gb", "2g.48gb", "4g.96gb"),
    "RTX PRO 4500": ("1g.8gb", "1g.16gb", "2g.16gb", "2g.32gb"),
}
"""The profiles of GPU instances by card, without their variants for media and graphics engines."""

_KNOWN: Final = frozenset(profile for profiles in PROFILES.values() for profile in profiles)
_FORM: Final = re.compile(r"(?:[1-7]c\.)?(?P<base>[1-7]g\.\d{1,3}gb)(?:[.+-](?:me|gfx)(?:\.all)?)?", re.ASCII)


def profile_of(resource: str) -> str:
    """The profile that a resource of the strategy ``mixed`` counts; empty for any other resource."""
    return resource.removeprefix(PREFIX) if resource.startswith(PREFIX) else ""


def is_profile(text: str) -> bool:
    """Whether a text has the form of a profile: compute slices, GPU slices, memory, engines."""
    return _FORM.fullmatch(text) is not None


def has_card(profile: str) -> bool:
    """Whether a card is known that has the profile, or the one that it is a variant or a part of."""
    match = _FORM.fullmatch(profile)
    return match is not None and match["base"] in _KNOWN


def listed() -> str:
    """The profiles of all cards, for messages."""
    return "; ".join(f"{card}: {' '.join(profiles)}" for card, profiles in PROFILES.items())


def asked(requests: Iterable[tuple[str, int]], registry: Registry) -> Mapping[str, int]:
    """The instances among the plain requests (nano units) of a pod in a cluster whose vendors are these.

    ``nvidia.com/gpu`` is among them where no vendor has it (``scheduled``).
    """
    return {
        name: amount // NANO
        for name, amount in requests
        if amount > 0 and (name.startswith(PREFIX) or (name == CARDS and registry.owner_of(CARDS) is None))
    }


def offered(facts: NodeFacts) -> Mapping[str, int]:
    """The resources of the strategy ``mixed`` that a node offers, with the number of instances."""
    found = ((name, amount.nano // NANO) for name, amount in sorted(facts.allocatable.items()))
    return {name: number for name, number in found if name.startswith(PREFIX) and number > 0}


def is_offered(snapshot: ClusterSnapshot, resource: str) -> bool:
    """Whether any node offers a resource."""
    return any(resource in offered(entry.facts) for entry in snapshot.nodes)


def is_single(facts: NodeFacts) -> bool:
    """Whether ``nvidia.com/gpu`` of a node counts MIG instances: by its labels, while it offers some."""
    amount = facts.allocatable.get(CARDS)
    return facts.labels.get(STRATEGY_LABEL) == SINGLE and amount is not None and amount.nano > 0


def single_profile(facts: NodeFacts) -> str:
    """The profile of the instances of a node with the strategy ``single``; empty where the labels do not tell."""
    return facts.labels.get(PRODUCT_LABEL, "").partition(CUT)[2]


def scheduled(snapshot: ClusterSnapshot, registry: Registry) -> Registry:
    """The vendors whose devices a scheduler allocates in a cluster: all, unless NVIDIA's plugin is alone there.

    Where no node has registered cards for HAMi, and ``nvidia.com/gpu`` counts instances on some, kube-scheduler counts
    it like any other resource, and no webhook of HAMi is to be expected.
    """
    owner = registry.owner_of(CARDS)
    if owner is None or any(owner.name in entry.state.shape.positions for entry in snapshot.nodes):
        return registry
    if not any(is_single(entry.facts) for entry in snapshot.nodes):
        return registry
    return Registry(spec for spec in registry if spec is not owner)


def contradictions(labels: Mapping[str, str], capacity: Mapping[str, int]) -> Iterator[str]:
    """Where the labels of a node tell other instances than its capacity, which is what the scheduler counts.

    ``capacity`` has whole amounts. Replicas (time slicing) multiply the number of a label.
    """
    strategy, product = labels.get(STRATEGY_LABEL, ""), labels.get(PRODUCT_LABEL, "")
    cut = [name for name in sorted(capacity) if name.startswith(PREFIX) and capacity[name]]
    if strategy not in {SINGLE, MIXED}:
        return
    if strategy == SINGLE and cut:
        yield f"label {STRATEGY_LABEL}={SINGLE}, and the node offers {', '.join(f'{capacity[n]} {n}' for n in cut)}"
    if strategy == MIXED and CUT in product:
        yield f"label {STRATEGY_LABEL}={MIXED}, and {PRODUCT_LABEL}={product} is that of the strategy {SINGLE}"
    counted = (CARDS,) if strategy == SINGLE else cut
    told = [key.removesuffix(".count") for key in labels if key.startswith(PREFIX) and key.endswith(".count")]
    for name in dict.fromkeys((*counted, *(told if strategy == MIXED else ()))):
        count, replicas = labels.get(f"{name}.count"), labels.get(f"{name}.replicas", "1")
        if count is None:
            continue
        if not (count.isdecimal() and replicas.isdecimal()):
            yield f"label {name}.count={count} (replicas {replicas}) is not a number"
        elif capacity.get(name, 0) != int(count) * max(int(replicas), 1):
            times = f" and {name}.replicas={replicas}" if f"{name}.replicas" in labels else ""
            yield f"label {name}.count={count}{times}, and the node offers {capacity.get(name, 0)} {name}"
