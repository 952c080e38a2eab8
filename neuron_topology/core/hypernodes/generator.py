"""Machines to the HyperNodes of a cluster: one tree in which every machine and every HyperNode has one parent.

Parts are joined from the nearest tier upwards, and what was joined once stays together: an UltraServer whose machines
are in two parts of the layer above is left out of that layer and joins the next, where it is whole again. So labels can
never produce two parents. Machines that name one part and disagree about what it is in are kept apart: a wrong label
takes no other machine out of the layers above, and no part below the zone is in two zones. Machines of different
families share no part below the zone: Volcano's tiers are then the same for each of them, and a gang is not spread over
kinds of machines.

Source: Volcano 1.14.1 ``pkg/controllers/hypernode/discovery/label/label.go`` and cloud-provider-aws' node labels.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hami_plugins.model.units import NodeName
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.tiers import BY_NUMBER, ROOT, TIERS, ZONE, Tier

_DIGITS: Final = 12
_ZONE: Final = TIERS.index(ZONE)


class HyperNode(NamedTuple):
    """One part of the network: either its nodes or the HyperNodes below it, by name, sorted.

    ``part`` is the value of the tier's label that its machines have in common, empty where there is none.
    """

    name: str
    tier: Tier
    family: str = ""
    part: str = ""
    nodes: tuple[NodeName, ...] = ()
    children: tuple[str, ...] = ()


class _Key(NamedTuple):
    """The common labels of machines in one part of a tier; ``above`` are the parts that contain it."""

    family: str
    part: str
    above: tuple[tuple[str, ...], ...] = ()


class HyperNodeTree(NamedTuple):
    """The HyperNodes, nearest tier first and by name, and what had to be left out of which tier, in words."""

    hypernodes: tuple[HyperNode, ...]
    remarks: tuple[str, ...] = ()


class _Block(NamedTuple):
    """Machines that stay together from here on: a single one, or those of a HyperNode."""

    machines: tuple[TopologyNode, ...]
    hypernode: HyperNode | None = None

    @property
    def family(self) -> str:
        return self.machines[0].family


def tree(machines: Iterable[TopologyNode]) -> HyperNodeTree:
    """The HyperNodes for these machines; the same ones in any order of them."""
    blocks = [_Block((each,)) for each in sorted(set(machines))]
    made: list[HyperNode] = []
    remarks: list[str] = []
    for at, tier in enumerate(TIERS):
        blocks = _joined(blocks, at, tier, made, remarks)
    if len(blocks) > 1 or (blocks and blocks[0].hypernode is None):
        _join(blocks, ROOT, _Key("", ""), made)
    return HyperNodeTree(tuple(sorted(made, key=lambda each: (each.tier.number, each.name))), tuple(remarks))


def tiers_of(machines: Iterable[TopologyNode]) -> frozenset[str]:
    """The names of the tiers that HyperNodes for these machines are of."""
    return frozenset(each.tier.name for each in tree(machines).hypernodes)


def _joined(blocks: Sequence[_Block], at: int, tier: Tier, made: list[HyperNode], remarks: list[str]) -> list[_Block]:
    """The blocks after one tier: those of one part are one block, those of none or of several stay as they are."""
    groups: defaultdict[_Key, list[_Block]] = defaultdict(list)
    left: list[_Block] = []
    for block in blocks:
        parts = _parts(block, at)
        if len(parts) > 1:
            remarks.append(_torn(block, tier, parts))
        if len(parts) > 1 or not parts[0]:
            left.append(block)
        else:
            groups[_Key(block.family if tier.apart else "", parts[0], _above(block, at, tier))].append(block)
    remarks.extend(_disagreeing(groups, at, tier))
    return [*left, *(_join(group, tier, key, made) for key, group in sorted(groups.items()))]


def _parts(block: _Block, at: int) -> tuple[str, ...]:
    return tuple(sorted({machine.parts[at] for machine in block.machines}))


def _above(block: _Block, at: int, tier: Tier) -> tuple[tuple[str, ...], ...]:
    """What has to be the same for all of a part. An UltraServer may be in several network layers, not in two zones."""
    return tuple(_parts(block, each) for each in ([_ZONE] if tier.across else range(at + 1, len(TIERS))) if each > at)


def _disagreeing(groups: Iterable[_Key], at: int, tier: Tier) -> Iterator[str]:
    """Parts of one name that are kept apart, and what about."""
    paths: defaultdict[tuple[str, str], list[tuple[tuple[str, ...], ...]]] = defaultdict(list)
    for key in groups:
        paths[key.family, key.part].append(key.above)
    for (_, part), found in sorted(paths.items()):
        if len(found) < 2:
            continue
        tiers = [ZONE] if tier.across else TIERS[at + 1 :]
        first = next(place for place, said in enumerate(zip(*found, strict=True)) if len(set(said)) > 1)
        said = ", ".join(sorted({each or "none" for path in found for each in path[first]}))
        yield f"machines with {tier.label}={part} disagree about {tiers[first].label} ({said}); they are kept apart"


def _join(blocks: Sequence[_Block], tier: Tier, key: _Key, made: list[HyperNode]) -> _Block:
    """One HyperNode above the blocks. It has nodes or HyperNodes: a machine among HyperNodes gets one of its own."""
    family, part = key.family, key.part
    below = [block.hypernode.tier.number for block in blocks if block.hypernode is not None]
    name = _name(family, tier, part, above=key.above)
    machines = tuple(machine for block in blocks for machine in block.machines)
    if not below:
        nodes = tuple(sorted(machine.name for machine in machines))
        joined = HyperNode(name, tier, family, part, nodes=nodes)
    else:
        own = BY_NUMBER[max(below)]
        alone = [_alone(block.machines[0], own) for block in blocks if block.hypernode is None]
        made.extend(alone)
        children = [*alone, *(block.hypernode for block in blocks if block.hypernode is not None)]
        joined = HyperNode(name, tier, family, part, children=tuple(sorted(each.name for each in children)))
    made.append(joined)
    return _Block(machines, joined)


def _alone(machine: TopologyNode, tier: Tier) -> HyperNode:
    return HyperNode(_name(machine.family, tier, "", machine.name), tier, machine.family, nodes=(machine.name,))


def _name(family: str, tier: Tier, part: str, node: str = "", above: Iterable[Sequence[str]] = ()) -> str:
    """The same in every cluster and after every deletion, for it is made of what the machines say alone."""
    if not part and not node:
        return f"neuron-{tier.name}"
    said = "\n".join((family, tier.label, part, node, *(",".join(each) for each in above)))
    digest = hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]
    return "-".join(word for word in ("neuron", _plain(family), tier.name, digest) if word)


def _plain(family: str) -> str:
    """The family as a part of an object's name, empty where its label could not be one."""
    return family if family.isascii() and family.isalnum() and family.islower() else ""


def _torn(block: _Block, tier: Tier, parts: Sequence[str]) -> str:
    what = block.hypernode.name if block.hypernode is not None else block.machines[0].name
    of = f"{block.hypernode.tier.name} {block.hypernode.part}" if block.hypernode is not None else "a machine"
    spelled = ", ".join(each or f"without {tier.label}" for each in parts)
    return f"{what} ({of}) is in several parts of {tier.name} ({spelled}); it is left out of that tier"
