"""What a cluster shows of itself: the values that the checks look at, without IO."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.model.pods import Pod, ResourceList
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.wire import documents
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator_devices import DeviceObject
from koordinator_adapter.core.devices import koordlet

_GATES: Final = re.compile(r"^--?feature-gates=(.*)$", re.DOTALL)


class DoctorSeverity(StrEnum):
    """How bad it is: pods go wrong, pods can go wrong, or something to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that is wrong: which check found it, about what (``node/gpu-1``), and the command that fixes it."""

    check: str
    severity: DoctorSeverity
    about: str
    words: str
    fix: str = ""


class ProgramContainer(NamedTuple):
    """One container of a program: its place among them, image, and command and arguments as written."""

    at: int
    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """All of its command line."""
        return (*self.command, *self.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgram:
    """A workload of the cluster's own: a Deployment or DaemonSet."""

    kind: str
    namespace: str
    name: str
    parts: tuple[ProgramContainer, ...] = ()
    account: str = "default"

    @property
    def full_name(self) -> str:
        """How findings call it."""
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"

    def runs(self, word: str) -> bool:
        """Whether a program of that name is in it."""
        return self.name == word or any(word in part.image or word in " ".join(part.words) for part in self.parts)

    def gates(self) -> Mapping[str, bool]:
        """The feature gates that it is started with; the later of two wins."""
        return dict(gate for part in self.parts for gate in koordlet.gates_of(part.words))

    def flag(self, name: str) -> str | None:
        """The value of a flag, empty for one without; ``None`` where it is not given."""
        for part in self.parts:
            for at, word in enumerate(part.words):
                given, equals, value = word.lstrip("-").partition("=")
                if word.startswith("-") and given == name:
                    return value if equals or at + 1 == len(part.words) else _operand(part.words[at + 1])
        return None

    def with_gate(self, gate: str, *, on: bool = True) -> str:
        """The command that sets a feature gate."""
        wanted = f"{gate}={'true' if on else 'false'}"
        for part, at, text in _gate_words(self):
            given = [each for each in text.split(",") if each.partition("=")[0].strip() != gate]
            value = f"{part.args[at].partition('=')[0]}={','.join([*given, wanted])}"
            return self.patch("replace", part, f"args/{at}", value)
        first = next((part for part in self.parts if part.args), None)
        if first is None:
            return f"kubectl -n {self.namespace} edit {self.kind.lower()} {self.name}   # add --feature-gates={wanted}"
        return self.patch("add", first, "args/-", f"--feature-gates={wanted}")

    def patch(self, verb: str, part: ProgramContainer, where: str, value: str) -> str:
        """The command that changes something of one container."""
        path = f"/spec/template/spec/containers/{part.at}/{where}"
        text = documents.dump([{"op": verb, "path": path, "value": value}])
        return f"kubectl -n {self.namespace} patch {self.kind.lower()} {self.name} --type=json -p {shlex.quote(text)}"


class Hook(NamedTuple):
    """An admission webhook: its configuration and its own name, and whether the pod is lost when it does not answer."""

    configuration: str
    name: str
    fails_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """A node: its labels, what it offers, and what its kubelet says of the runtime (``containerd://1.7.13``).

    ``places`` are the places of its cards in the list of the node's agent, by id, where there is one.
    """

    name: NodeName
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    runtime: str = ""
    places: Mapping[DeviceId, int] = field(default_factory=dict)

    def offers(self, resource: str) -> int:
        """How much it offers, rounded up; 0 where it offers none."""
        found = self.allocatable.get(resource)
        return 0 if found is None else found.ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedPod:
    """A pod that is not finished: as a value, why it waits, who made it, and its images."""

    pod: Pod
    waits: str = ""
    owner: str = ""
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was looked at. ``kinds`` are those of which there is anything, or which were asked for.

    ``policies`` are the match conditions of admission policies by name. ``settings`` are ConfigMaps by
    ``namespace/name``; ``schedulers`` are the profiles found in them, ``injections`` the modes of injection in those of
    the adapter's own.
    """

    kinds: frozenset[str]
    machines: Mapping[NodeName, NodeEvidence] = field(default_factory=dict)
    devices: Mapping[NodeName, DeviceObject] = field(default_factory=dict)
    pods: tuple[UnfinishedPod, ...] = ()
    programs: tuple[ClusterProgram, ...] = ()
    hooks: tuple[Hook, ...] = ()
    policies: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    schedulers: tuple[tuple[str, Json], ...] = ()
    injections: Mapping[str, str] = field(default_factory=dict)
    unserved: frozenset[str] = frozenset()
    unreadable: tuple[tuple[str, str], ...] = ()

    def program(self, word: str) -> ClusterProgram | None:
        """The first program of that name."""
        return next((each for each in self.programs if each.runs(word)), None)

    def card_nodes(self) -> Iterator[tuple[NodeEvidence, DeviceObject]]:
        """Nodes with published cards, by name."""
        for name in sorted(self.devices):
            machine = self.machines.get(name)
            if machine is not None and self.devices[name].cards:
                yield machine, self.devices[name]


def merge_patch(namespace: str, owner: str, spec: Json, metadata: Json | None = None) -> str:
    """The command that changes the pod template of a workload."""
    template = {"spec": spec} if metadata is None else {"metadata": metadata, "spec": spec}
    text = documents.dump({"spec": {"template": template}})
    return f"kubectl -n {namespace} patch {owner} --type=merge -p {shlex.quote(text)}"


def several(names: Sequence[str], most: int = 5) -> str:
    """Some of many names."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _gate_words(program: ClusterProgram) -> Iterator[tuple[ProgramContainer, int, str]]:
    for part in program.parts:
        for at, word in enumerate(part.args):
            found = _GATES.match(word)
            if found:
                yield part, at, found[1]


def _operand(word: str) -> str:
    return "" if word.startswith("-") else word
