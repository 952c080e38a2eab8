"""From policy words to sort keys: HAMi's annotations and Volcano's scheduler argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hami_plugins.model.policy import NodePolicy, Policy, SortKey
from hami_plugins.wire import koordinator_hints, scoring_weights
from hami_plugins.wire.koordinator import GPU_TYPE

NODE_POLICY_KEY: Final = "hami.io/node-scheduler-policy"
DEVICE_POLICY_KEY: Final = "hami.io/gpu-scheduler-policy"
NUMA_BIND_KEY: Final = "nvidia.com/numa-bind"

_TRUE_WORDS: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_SORTING: Final = ("binpack", "spread", "numa")
_VOLCANO_ORDERS: Final = {
    "binpack": (SortKey.MOST_MEMORY, SortKey.LOW_INDEX),
    "spread": (SortKey.LEAST_SHARED, SortKey.LOW_INDEX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDefaults:
    """The scheduler's defaults for pods without annotations (HAMi's two flags, Volcano's
    ``deviceshare.SchedulePolicy``).

    ``volcano_orders_cards``: from 1.15 on Volcano's policy also says which card of a node comes first; before, it only
    ranks nodes, and the last card comes first. ``koordinator`` is ``spread`` for its ``LeastAllocated``, which it does
    unless told otherwise, or ``binpack`` for ``MostAllocated``.
    """

    node: str = "binpack"
    device: str = "spread"
    volcano: str = "binpack"
    volcano_orders_cards: bool = False
    koordinator: str = "spread"


def policy_of(annotations: Mapping[str, str], defaults: PolicyDefaults) -> Policy:
    """The preferences of a pod in HAMi's words.

    Raises ``WireError`` for weights that do not parse, as HAMi refuses to filter such a pod.
    """
    node_words = annotations.get(NODE_POLICY_KEY, defaults.node)
    device_words = annotations.get(DEVICE_POLICY_KEY, defaults.device)
    tokens = tuple(token.strip() for token in device_words.split(","))
    one_numa = annotations.get(NUMA_BIND_KEY, "") in _TRUE_WORDS
    weights = annotations.get(scoring_weights.KEY)
    policy = Policy(
        node=NodePolicy.SPREAD if node_words == "spread" else NodePolicy.BINPACK,
        order=device_order(device_words, one_numa=one_numa),
        exclusive="mutex" in tokens,
        near="topology-aware" in tokens,
        one_numa=one_numa,
        node_words=node_words,
        device_words=device_words,
    )
    return policy if weights is None else replace(policy, weights=scoring_weights.parse(weights))


def volcano_policy(defaults: PolicyDefaults) -> Policy:
    """The preferences of a pod in Volcano's words: the scheduler's argument decides, not the pod (Volcano 1.14.1
    ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``).

    Nodes go by ``VendorSpec.score_node``, so the highest score wins whatever the argument.
    """
    order = _VOLCANO_ORDERS.get(defaults.volcano) if defaults.volcano_orders_cards else None
    return Policy(
        node=NodePolicy.BINPACK,
        order=order or (SortKey.HIGH_INDEX,),
        node_words=defaults.volcano,
        device_words=defaults.volcano,
    )


def koordinator_policy(annotations: Mapping[str, str], defaults: PolicyDefaults) -> Policy:
    """The preferences of a pod in Koordinator's words: the scheduler's profile decides (Koordinator 1.7.0
    ``pkg/scheduler/apis/config/types.go``).

    Cards are compared by their memory alone, as they are there. A hint may want them from one NUMA node.
    """
    packed = defaults.koordinator == "binpack"
    text = annotations.get(koordinator_hints.KEY)
    hint = koordinator_hints.decode(text).get(GPU_TYPE) if text is not None else None
    return Policy(
        node=NodePolicy.BINPACK if packed else NodePolicy.SPREAD,
        order=(SortKey.MOST_MEMORY if packed else SortKey.LEAST_MEMORY, SortKey.LOW_INDEX),
        one_numa=hint is not None and hint.scope in koordinator_hints.WITHIN_ONE_NUMA_NODE,
        node_words=defaults.koordinator,
        device_words=defaults.koordinator,
    )


def device_order(words: str, *, one_numa: bool) -> tuple[SortKey, ...]:
    """The order in which HAMi tries devices (``policy/gpu_policy.go``): the tail of its ascending sort comes first."""
    if "," in words or words == "numa":
        return _chain(words, one_numa=one_numa)
    if words == "mutex":
        return (SortKey.LEAST_SHARED, SortKey.HIGH_NUMA, SortKey.LAST)
    if one_numa:
        packed = (SortKey.LOW_NUMA, SortKey.MOST_SCORE, SortKey.LAST)
        return packed if words == "binpack" else (SortKey.HIGH_NUMA, SortKey.LEAST_SCORE, SortKey.LAST)
    score = SortKey.MOST_SCORE if words == "binpack" else SortKey.LEAST_SCORE
    return (score, SortKey.HIGH_NUMA, SortKey.LAST)


def _chain(words: str, *, one_numa: bool) -> tuple[SortKey, ...]:
    wanted = dict.fromkeys(token for token in (part.strip() for part in words.split(",")) if token in _SORTING)
    chain = list(wanted) or ["spread"]
    if one_numa and chain[0] != "numa":
        chain = ["numa", *(word for word in chain if word != "numa")]
    keys = {"binpack": SortKey.MOST_SCORE, "spread": SortKey.LEAST_SCORE, "numa": SortKey.HIGH_NUMA}
    return (*(keys[token] for token in chain), SortKey.HIGH_INDEX, SortKey.LAST)
