"""Objects as hypothesis makes them: nodes and pods that mean something, nearly something, or nothing at all."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from hami_plugins.engine.registry import Registry
from tests.golden import wire_keys
from tests.machines import MACHINES, SPECS, Machine

Raw = dict[str, Any]

KEYS = sorted(wire_keys.all_keys())
RESOURCES = sorted({name for spec in SPECS for name in spec.resources.all()})
LISTS = [spec.keys.allocated for spec in SPECS]
seldom = st.sampled_from([False] * 9 + [True])

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
"""Whatever JSON can hold."""

whole_numbers = st.integers(0, 12) | st.sampled_from([16, 100, 256, 1024, 3000, 65_536, 98_304])

sensible = whole_numbers.map(str) | st.sampled_from(["0", "1500m", "16Gi", "1e3", "1k", "2.5", "1Ei", "0.0000000001"])
"""Amounts that a manifest may hold, whether or not they mean anything of a device."""

quantities = st.one_of(
    whole_numbers.map(str),
    st.sampled_from(["-1", "0", "1500m", "16Gi", "1e3", "1k", "2.5", "-5Gi", "9" * 30, "1E", "0.0000000001", "1Ei"]),
    words,
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
)
"""Amounts: sensible, negative, huge, suffixed, fractional, and texts that are none."""


@cache
def ids_of(name: str, node: str) -> tuple[str, ...]:
    """The devices of a node with the machine of that name."""
    return next(machine for machine in MACHINES if machine.name == name).entry(Registry(SPECS), node).ids


@st.composite
def allocations(draw: st.DrawFn, machine: Machine, node: str, containers: int) -> str:
    """An assignment of the machine's devices to so many containers; seldom a broken one."""
    if draw(seldom):
        return draw(words)
    word = next(spec for spec in SPECS if spec.name == machine.vendor).wire_word()
    devices = st.sampled_from([*ids_of(machine.name, node), "GPU-gone"])
    memory, cores = (-1, -1) if draw(seldom) else (draw(st.integers(0, 2_000)), draw(st.integers(0, 20)))
    held = (draw(st.lists(devices, min_size=1, max_size=2)) for _ in range(containers))
    return "".join(f"{''.join(f'{device},{word},{memory},{cores}:' for device in each)};" for each in held)


def cut(text: str, at: int) -> str:
    """A text that lost its end, as annotations do that were cut off."""
    return text[: max(len(text) - at, 0)]


odd_texts = words | st.sampled_from(["true", "[]", "{}", "mutex", "null", "GPU-gone", "slot=1,core=1,memory=1", "0"])

annotations: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just(()).map(dict), st.dictionaries(st.sampled_from(KEYS) | words, odd_texts, max_size=3)
)
"""What a pod may say of itself, with every key that anybody reads."""


any_machine = st.sampled_from(MACHINES)


@st.composite
def nodes(draw: st.DrawFn, machines: st.SearchStrategy[Machine] = any_machine) -> Raw:
    """A node of some machine, whose register may be cut off, listed twice, or replaced by anything."""
    machine = draw(machines)
    raw = machine.node(f"{machine.name}-{draw(st.integers(0, 1))}")
    held = raw["metadata"]["annotations"]
    for key in sorted(held):
        match draw(st.sampled_from(["whole"] * 5 + ["cut", "twice", "else"])):
            case "cut":
                held[key] = cut(held[key], draw(st.integers(1, 60)))
            case "twice":
                held[key] = held[key] + held[key]
            case "else":
                held[key] = draw(json_values)
    if draw(seldom):
        raw["status"]["capacity"] |= draw(st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=3))
    return draw(broken(raw))


@st.composite
def containers(draw: st.DrawFn, machine: Machine) -> Raw:
    """A container that asks for what the machine has, and sometimes for anything else."""
    limits: dict[str, Any] = {key: str(amount) for key, amount in draw(st.sampled_from(machine.asks)).items()}
    match draw(st.sampled_from([*["right"] * 5, "odd", "other", "none"])):
        case "other":
            limits |= draw(st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=2))
        case "odd":
            limits |= draw(st.dictionaries(st.sampled_from(sorted(limits)), sensible, max_size=2))
        case "none":
            limits = {}
    container: Raw = {"name": draw(st.sampled_from(["main", "side", ""])), "resources": {"limits": limits}}
    if draw(seldom):
        container["resources"]["requests"] = draw(st.dictionaries(st.sampled_from(RESOURCES), sensible, max_size=2))
    if draw(seldom):
        container["securityContext"] = {"privileged": True}
    return container


@st.composite
def pods(draw: st.DrawFn, machines: st.SearchStrategy[Machine] = any_machine, *, running: bool = False) -> Raw:
    """A pod; a running one has a node and assignments, which may be of devices that vanished."""
    machine = draw(machines)
    node = f"{machine.name}-{draw(st.integers(0, 1))}"
    name = f"pod-{draw(st.integers(0, 50))}"
    held: dict[str, Any] = {**draw(annotations), **draw(st.sampled_from(machine.words))}
    spec: Raw = {"containers": draw(st.lists(containers(machine), min_size=1, max_size=3))}
    if draw(st.booleans()):
        spec["initContainers"] = draw(st.lists(containers(machine), max_size=2))
    if running:
        many = len(spec["containers"]) + len(spec.get("initContainers", ()))
        held[_list_of(machine)] = draw(allocations(machine, node, many))
        if draw(seldom):
            held[draw(st.sampled_from(LISTS))] = draw(allocations(machine, node, 1))
        spec["nodeName"] = node
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": held},
        "spec": spec,
        "status": {"phase": draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded", "?"]))},
    }
    return draw(broken(raw))


def _list_of(machine: Machine) -> str:
    return next(spec for spec in SPECS if spec.name == machine.vendor).keys.allocated


@st.composite
def broken(draw: st.DrawFn, raw: Raw) -> Raw:
    """The object as it is, or with one member somewhere replaced by any JSON value."""
    if not draw(seldom):
        return raw
    place: Any = raw
    for _ in range(draw(st.integers(0, 4))):
        members = place.values() if isinstance(place, dict) else place
        inner = [each for each in members if each and isinstance(each, dict | list)]
        if not inner:
            break
        place = draw(st.sampled_from(inner))
    key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = draw(json_values)
    return raw


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[object], list[Raw]]:
    """A listing (nodes of few kinds, pods that run on them, and things that are neither), and pods for such nodes."""
    machines = st.sampled_from(draw(st.lists(any_machine, min_size=1, max_size=2)))
    listed = nodes(machines) | nodes(machines) | pods(machines, running=True) | json_values
    return draw(st.lists(listed, max_size=8)), draw(st.lists(pods(machines), max_size=2))
