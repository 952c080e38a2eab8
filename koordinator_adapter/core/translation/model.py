"""The values of a translation: whose words, what changes, what is lost, and what cannot be said at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import Edit, Path
from hami_plugins.model.requests import ContainerKind
from koordinator_adapter.core.translation.choices import NoCoreLimit

if TYPE_CHECKING:
    from hami_plugins.engine.registry import Registry
    from hami_plugins.model.pods import Container, Pod
    from hami_plugins.model.requests import DeviceRequest
    from hami_plugins.model.units import MiB


class Fidelity(StrEnum):
    """What became of a meaning: kept, changed or given up, or not to be said in the other words."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    REFUSED = "refused"

    @property
    def rank(self) -> int:
        """Larger is worse."""
        return list(Fidelity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationFinding:
    """One thing to know about a translation. ``about`` is the key or resource, ``path`` where it stands in the pod.

    ``words`` say what changes (with the numbers) or why it is refused, ``remedy`` what would do.
    """

    fidelity: Fidelity
    about: str
    words: str
    remedy: str = ""
    path: Path = ()


def _schedulers() -> Mapping[Dialect, str]:
    return {Dialect.HAMI: "hami-scheduler", Dialect.VOLCANO: "volcano", Dialect.KOORDINATOR: "koord-scheduler"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationOptions:
    """The target cluster's facts that a translation needs.

    ``profiles`` names the schedulers (profiles of Koordinator) that pack or spread, by the policy's word.
    ``slices_per_card`` belongs to ``NoCoreLimit.SHARE``. ``models`` are the cards of the cluster as its nodes' labels
    spell them; ``device_labels``: Device objects carry the ids of cards as labels; ``card_memory`` is the largest card,
    if it is known, and ``card_sizes`` are those of all cards that are. ``runtime_class`` is given to pods that name
    none, empty for none. ``unserved`` are namespaces that Koordinator's webhook leaves out. ``groups`` (by full name)
    and ``quotas`` are the PodGroups and the quotas or queues that are there for the target's scheduler, or will be;
    ``moved`` are the gangs that go to it as a whole, including members without cards.
    """

    schedulers: Mapping[Dialect, str] = field(default_factory=_schedulers)
    profiles: Mapping[str, str] = field(default_factory=dict)
    no_core_limit: NoCoreLimit = NoCoreLimit.SHARE
    slices_per_card: int = 10
    models: tuple[str, ...] = ()
    device_labels: bool = False
    card_memory: MiB | None = None
    card_sizes: frozenset[MiB] = frozenset()
    runtime_class: str = "nvidia"
    unserved: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    quotas: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedDevices:
    """What a pod asks for: the container (its place among all of them) and its request, the same for every dialect.

    ``limited`` says that the limits are enforced in the container as things stand.
    """

    container: int
    request: DeviceRequest
    limited: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationContext:
    """One pod on its way. ``raw`` is the pod or template as written, ``path`` leads to the container that asks."""

    raw: Mapping[str, object]
    pod: Pod
    source: Dialect
    target: Dialect
    asked: RequestedDevices
    path: Path
    registry: Registry
    settings: TranslationOptions

    @property
    def container(self) -> Container:
        """The container that asks."""
        return self.pod.containers[self.asked.container]

    @property
    def env(self) -> Mapping[str, tuple[int, str | None]]:
        """The variables of the container that asks."""
        return env_at(self.raw, self.path)


Change = Edit | TranslationFinding
Rule = Callable[[TranslationContext], Iterable[Change]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What becomes of one pod. ``source`` is ``None`` for one that asks for no cards; refused ones have no edits.

    ``unknown`` says that the target divides no card that the pod asks for, so that there is nothing to translate.
    """

    source: Dialect | None
    target: Dialect
    edits: tuple[Edit, ...] = ()
    findings: tuple[TranslationFinding, ...] = ()
    unknown: bool = False

    @property
    def fidelity(self) -> Fidelity:
        """The worst of the findings."""
        return max((each.fidelity for each in self.findings), key=lambda each: each.rank, default=Fidelity.LOSSLESS)


def container_path(pod: Pod, index: int) -> Path:
    """Where a container stands in its pod, by its place among all of them."""
    first = sum(1 for each in pod.containers if each.kind is not ContainerKind.APP)
    return ("spec", "initContainers", index) if index < first else ("spec", "containers", index - first)


def at(raw: object, path: Path) -> object:
    """What stands at a path, ``None`` where there is nothing."""
    for step in path:
        if isinstance(raw, dict):
            raw = raw.get(step)
        elif isinstance(raw, list) and isinstance(step, int) and step < len(raw):
            raw = raw[step]
        else:
            return None
    return raw


def env_at(raw: object, container: Path) -> Mapping[str, tuple[int, str | None]]:
    """A container's variables by name: place and text, which is ``None`` where it comes from elsewhere."""
    items = at(raw, (*container, "env"))
    if not isinstance(items, list):
        return {}
    return {
        each["name"]: (index, value if isinstance(value := each.get("value"), str) else None)
        for index, each in enumerate(items)
        if each.get("name")
    }


def lost(about: str, words: str, *, path: Path = (), remedy: str = "") -> TranslationFinding:
    """A meaning that changes."""
    return TranslationFinding(fidelity=Fidelity.LOSSY, about=about, words=words, remedy=remedy, path=path)


def refused(about: str, words: str, remedy: str, *, path: Path = ()) -> TranslationFinding:
    """A meaning that cannot be kept, and must not be given up silently."""
    return TranslationFinding(fidelity=Fidelity.REFUSED, about=about, words=words, remedy=remedy, path=path)


def kept(about: str, words: str, *, path: Path = ()) -> TranslationFinding:
    """A meaning that is kept, with something to know about it."""
    return TranslationFinding(fidelity=Fidelity.LOSSLESS, about=about, words=words, path=path)
