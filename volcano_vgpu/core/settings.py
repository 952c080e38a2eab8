"""What an operator can set about the agent. Values alone; ``config`` reads them.

Names are those of Volcano's and HAMi's own configuration wherever these have one, in their spelling
(``deviceSplitCount``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from hami_plugins.config.values import AbsolutePath, Listen, Logging, Port, Seconds, Sha256, Strict
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import volcano_config
from hami_plugins.wire.volcano_config import Geometry, VolcanoConfig
from volcano_vgpu.core.container_settings import ContainerSettings, RequestDefaults
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.slots import MOST_SLOTS

NodeDialect = Literal[Dialect.VOLCANO, Dialect.HAMI]
"""Whose resources a node offers, and whose annotations the agent reads and writes."""

Choice = Literal["auto", "always", "never"]
"""``auto`` looks at what is there and decides."""

USUAL: Final[Mapping[Dialect, ResourceNames]] = {
    Dialect.VOLCANO: replace(volcano.RESOURCES, memory_percentage=""),
    Dialect.HAMI: nvidia.RESOURCES,
}
"""The resources of a node whose operator has not named them. Volcano has no percentage unless it is given a name."""

MOST_SCALING: Final = 100.0
"""More than this is a slip of the pen: a hundred times the card."""


_INFLEXIBLE: Final = (
    "flexibleMig: no MIG instance is made, because that needs dialect hami and mode mig; Volcano's scheduler chooses "
    "among the slices of a whole geometry (knownMigGeometries), which has to be there"
)


def _resource(name: str) -> str:
    domain, slash, rest = name.partition("/")
    if not (domain and slash and rest) or "/" in rest or not name.isascii() or " " in name:
        raise ValueError("not the name of an extended resource, which is <domain>/<name>")
    return name


OptionalResourceName = Annotated[str, AfterValidator(lambda name: _resource(name) if name else name)]
Scaling = Annotated[float, Field(gt=0, le=MOST_SCALING)]


class Exclusion(Strict):
    """Cards that are left alone, by UUID or by NVML's index."""

    uuids: frozenset[str] = Field(frozenset(), description="UUIDs of cards that the agent ignores.")
    indexes: frozenset[int] = Field(frozenset(), description="NVML indexes of cards that the agent ignores.")


class SharingSettings(Strict):
    """How cards are shared: the part that may differ from node to node.

    ``dialect`` decides which resource the node offers, which register it has and whose allocations it serves.
    ``device_memory_scaling`` multiplies the memory that is registered and allocated (Volcano's own plugin reads this
    setting and never applies it); ``gpu_memory_factor`` divides it, so that a unit is that many MiB.
    ``device_core_scaling`` multiplies only the node's sum of cores: on a card Volcano never books more than 100.
    Under HAMi the registered cores of each card are multiplied, and the factor is that of the requested memory.
    """

    dialect: NodeDialect = Field(
        Dialect.VOLCANO,
        description="Whose resources the node offers and whose allocations it serves: `volcano` or `hami`.",
    )
    device_split_count: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = Field(
        10,
        description="Containers that may share one card.",
    )
    device_memory_scaling: Scaling = Field(1.0, description="Factor for the memory that is registered and allocated.")
    device_core_scaling: Scaling = Field(
        1.0,
        description="Factor for the node's sum of cores, with dialect `hami` for the cores of each card.",
    )
    gpu_memory_factor: Annotated[int, Field(ge=1)] = Field(1, description="MiB in one unit of the memory resource.")
    disable_core_limit: bool = Field(False, description="Whether containers may use more cores than they requested.")
    mode: SharingMode = Field(SharingMode.HAMI_CORE, description="How cards are shared.")
    flexible_mig: bool = Field(
        False,
        description="Whether the agent makes MIG instances for the pods that need them, and removes them afterwards; "
        "only with dialect `hami` and mode `mig`, on cards that are in mode MIG.",
    )
    exclude: Exclusion = Exclusion()
    known_mig_geometries: tuple[dict[str, object], ...] = Field(
        (),
        description="MIG geometries in the form of Volcano's `knownMigGeometries`.",
    )

    @field_validator("known_mig_geometries")
    @classmethod
    def _are_readable(cls, found: tuple[dict[str, object], ...]) -> tuple[dict[str, object], ...]:
        try:
            _geometries(found)
        except WireError as error:
            raise ValueError(f"{error.key}: {error.why}") from error
        return found

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """How cards in MIG mode may be cut, as Volcano's scheduler knows it."""
        return _geometries(self.known_mig_geometries)


class NodeOverride(Strict):
    """What differs on the node of that name, or on nodes with all of those labels; later ones win."""

    name: str = Field("", description="Name of the node that the override is for.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes that the override is for.")
    settings: SharingSettings = SharingSettings()

    def means(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether it is about this node. One without name and labels is about none."""
        if not self.name and not self.labels:
            return False
        return self.name in ("", node) and self.labels.items() <= labels.items()


class Resources(Strict):
    """The names of the resources; empty is the dialect's own. Volcano has no percentage and no priority of its own."""

    count: OptionalResourceName = Field(
        "", description="Resource for a number of cards; empty for `volcano.sh/vgpu-number` or `nvidia.com/gpu`."
    )
    memory: OptionalResourceName = Field(
        "", description="Resource for memory; empty for `volcano.sh/vgpu-memory` or `nvidia.com/gpumem`."
    )
    memory_percentage: OptionalResourceName = Field(
        "",
        description="Resource for a percentage of memory; empty for none or `nvidia.com/gpumem-percentage`.",
    )
    cores: OptionalResourceName = Field(
        "",
        description="Resource for a percentage of cores; empty for `volcano.sh/vgpu-cores` or `nvidia.com/gpucores`.",
    )
    priority: OptionalResourceName = Field("", description="Resource for a priority; empty for none.")

    def of(self, dialect: Dialect) -> ResourceNames:
        """The names in force."""
        usual = USUAL[dialect]
        return ResourceNames(
            count=self.count or usual.count,
            memory=self.memory or usual.memory,
            memory_percentage=self.memory_percentage or usual.memory_percentage,
            cores=self.cores or usual.cores,
            priority=self.priority,
        )


class Scheduler(Strict):
    """Volcano's scheduler. Without a ``version`` that of its Deployment is looked up.

    ``touch`` and ``handshake`` say whether the node is patched to heal the scheduler's cache, and whether it gets a
    handshake; ``auto`` does what the version needs, and both for a version that is not known.
    """

    version: str = Field("", description="Release of Volcano's scheduler; empty reads it from its Deployment.")
    namespace: str = Field("volcano-system", description="Namespace of Volcano.")
    deployment: str = Field("volcano-scheduler", description="Name of the Deployment of Volcano's scheduler.")
    lease: str = Field("volcano", description="Name of the Lease of Volcano's scheduler.")
    touch: Choice = Field(
        "auto",
        description="Whether the agent patches its node to correct Volcano's cache; `auto` depends on the release.",
    )
    handshake: Choice = Field(
        "auto",
        description="Whether the node gets a handshake annotation; `auto` depends on the release.",
    )
    touch_interval: Annotated[float, Field(ge=1)] = Field(5.0, description="Minimum seconds between two such patches.")


class HealthSettings(Strict):
    """Which XID errors count, in the existing plugin's words: ``DP_DISABLE_HEALTHCHECKS``, ``DP_ENABLE_HEALTHCHECKS``.

    After ``recovery`` seconds without a new error a card is probed, and healthy again where it answers.
    """

    disabled: str = Field("", description="XID errors that are ignored, or `all`. Also `DP_DISABLE_HEALTHCHECKS`.")
    enabled: str = Field("", description="XID errors that count despite `disabled`. Also `DP_ENABLE_HEALTHCHECKS`.")
    recovery: Seconds = Field(
        300.0,
        description="Seconds without a new error after which a card is probed and may be healthy again.",
    )


class Monitor(Strict):
    """What containers really use. ``enabled`` reads it; ``feedback`` also writes: it blocks containers of low priority.

    ``directories`` are read in addition to those of the agent itself: those of HAMi and of Volcano's older plugin.
    ``proc`` shows the host's processes, if mounted; without it, killed processes still count and are reported as such.
    """

    enabled: bool = Field(True, description="Whether the agent reads and reports what containers use.")
    feedback: bool = Field(
        False,
        description="Whether containers of low priority are blocked while others need the card.",
    )
    directories: tuple[AbsolutePath, ...] = Field(
        ("/usr/local/vgpu/containers", "/tmp/vgpu/containers"),  # noqa: S108 - theirs
        description="Further directories with usage files, such as those of HAMi and Volcano's own plugin.",
    )
    proc: AbsolutePath = Field("/proc", description="Where the processes of the host are visible.")


class AgentListen(Listen):
    """Where the agent answers probes and scrapers."""

    port: Port = 9394


class AgentSettings(SharingSettings):
    """All of the agent's settings, with the overrides for this node applied.

    ``daemon_set`` is what runs the agents (``namespace/name``); where it is being deleted when an agent ends, the agent
    cleans its node.
    """

    version: Literal[1] = Field(1, description="Version of the file's format.")
    node: Annotated[str, Field(min_length=1)] = Field(description="Name of this node. Also `NODE_NAME`.")
    kubelet_directory: AbsolutePath = Field(
        "/var/lib/kubelet/device-plugins",
        description="Directory of the kubelet's device plugins.",
    )
    pod_resources_socket: AbsolutePath = Field(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        description="Socket of the kubelet's pod-resources API.",
    )
    cdi_directory: AbsolutePath = Field("/var/run/cdi", description="Directory for CDI specifications.")
    cdi: Choice = Field("auto", description="Whether devices are passed by CDI; `auto` asks the container runtime.")
    hook_path: AbsolutePath = Field(
        "/usr/local/vgpu",
        description="Directory of HAMi-core's library on the node. Also `HOOK_PATH`.",
    )
    lock_path: AbsolutePath = Field(
        "/tmp/vgpulock",  # noqa: S108 - where HAMi-core's containers meet on every node
        description="Directory of HAMi-core's locks on the node.",
    )
    library_source: AbsolutePath | None = Field(
        None,
        description="Directory of the image that holds HAMi-core's library.",
    )
    library_sha256: Sha256 = Field("", description="Checksum that the library must have; empty for any.")
    cards_file: AbsolutePath | None = Field(
        None,
        description="File of cards to use instead of the driver's, for tests.",
    )
    exclusive: Literal["refuse", "ignore"] = Field(
        "refuse",
        description="Whether the agent refuses to run alongside another device plugin for the same cards.",
    )
    daemon_set: Annotated[str, Field(pattern=r"^([^/]+/[^/]+)?$")] = Field(
        "",
        description="NAMESPACE/NAME of the agents' DaemonSet; the agent cleans its node when it is deleted.",
    )
    start_jitter: Seconds = Field(3.0, description="Maximum random delay in seconds before the first write.")
    resources: Resources = Resources()
    defaults: RequestDefaults = RequestDefaults()
    container: ContainerSettings = ContainerSettings()
    scheduler: Scheduler = Scheduler()
    health: HealthSettings = HealthSettings()
    monitor: Monitor = Monitor()
    listen: AgentListen = AgentListen()
    log: Logging = Logging()
    nodes: tuple[NodeOverride, ...] = Field(
        (), description="Overrides for some nodes, by name or labels; later entries win."
    )

    def on(self, labels: Mapping[str, str]) -> AgentSettings:
        """The settings for this node, which has these labels."""
        changes = {
            name: getattr(override.settings, name)
            for override in self.nodes
            if override.means(self.node, labels)
            for name in override.settings.model_fields_set
        }
        return self.model_copy(update=changes) if changes else self

    @property
    def names(self) -> ResourceNames:
        """The resources of the node."""
        return self.resources.of(self.dialect)

    @property
    def speaks_hami(self) -> bool:
        """Whether the node is HAMi's, not Volcano's."""
        return self.dialect is Dialect.HAMI

    @property
    def makes_instances(self) -> bool:
        """Whether MIG instances are made as pods need them."""
        return self.flexible_mig and self.speaks_hami and self.mode is SharingMode.MIG

    @property
    def memory_unit(self) -> int:
        """The MiB in a unit of the node's register and of allocations. HAMi has a factor for requests alone."""
        return 1 if self.speaks_hami else self.gpu_memory_factor

    def speaking(self, dialect: NodeDialect) -> AgentSettings:
        """The same settings with the other dialect's names."""
        return self.model_copy(update={"dialect": dialect})

    @property
    def spec(self) -> VendorSpec:
        """The cards in the node's dialect, under the names of resources that are set."""
        return self._of_hami if self.speaks_hami else self._of_volcano

    @property
    def _of_hami(self) -> VendorSpec:
        names = self.names
        return replace(
            nvidia.SPEC,
            resources=replace(names, priority=names.priority or nvidia.RESOURCES.priority),
            options=replace(
                nvidia.SPEC.options,
                default_memory=MiB(self.defaults.memory),
                default_cores=CoreShare(self.defaults.cores),
                memory_factor=self.gpu_memory_factor,
            ),
        )

    @property
    def _of_volcano(self) -> VendorSpec:
        names = self.names
        return volcano.configured(
            VolcanoConfig(
                count=names.count,
                memory=names.memory,
                memory_percentage=names.memory_percentage,
                cores=names.cores,
                geometries=self.geometries,
            )
        )

    @property
    def concerns(self) -> tuple[str, ...]:
        """What is allowed and yet will disappoint."""
        flexible = () if self.makes_instances or not self.flexible_mig else (_INFLEXIBLE,)
        if self.speaks_hami:
            return flexible
        given = self.defaults
        ignored = volcano_config.ignored_defaults(memory=given.memory, cores=given.cores, count=given.count)
        named = (self.names.count, self.names.memory, self.names.cores)
        usual = (volcano.RESOURCES.count, volcano.RESOURCES.memory, volcano.RESOURCES.cores)
        renamed = tuple(
            f"resources: {name} instead of {other}: from 1.14.3 on Volcano reads the default names only, and treats "
            "the node as one without cards"
            for name, other in zip(named, usual, strict=True)
            if name != other
        )
        return (*flexible, *renamed, *(f"defaults: {each}" for each in ignored))


def _geometries(raw: tuple[dict[str, object], ...]) -> tuple[Geometry, ...]:
    document = {"nvidia": {"knownMigGeometries": list(raw)}}
    return volcano_config.decode(document, key=volcano_config.KEY).geometries
