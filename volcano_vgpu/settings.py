"""What an operator can set about the agent. Values alone; ``config`` reads them.

Names are those of Volcano's and HAMi's own configuration wherever these have one, in their spelling
(``deviceSplitCount``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from hami_plugins.config.values import AbsolutePath, Listen, Logging, Port, Seconds, Sha256, Strict
from hami_plugins.errors import WireError
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano
from hami_plugins.vendors.volcano import RESOURCES
from hami_plugins.wire import volcano_config
from hami_plugins.wire.volcano_config import Geometry, VolcanoConfig
from volcano_vgpu.model import Mode
from volcano_vgpu.slots import MOST_SLOTS

Choice = Literal["auto", "always", "never"]
"""``auto`` looks at what is there and decides."""

MOST_SCALING: Final = 100.0
"""More than this is a slip of the pen: a hundred times the card."""


def _resource(name: str) -> str:
    domain, slash, rest = name.partition("/")
    if not (domain and slash and rest) or "/" in rest or not name.isascii() or " " in name:
        raise ValueError("not the name of an extended resource, which is <domain>/<name>")
    return name


ResourceName = Annotated[str, AfterValidator(_resource)]
OptionalResourceName = Annotated[str, AfterValidator(lambda name: _resource(name) if name else name)]
Scaling = Annotated[float, Field(gt=0, le=MOST_SCALING)]


class Exclusion(Strict):
    """Cards that are left alone, by UUID or by NVML's index."""

    uuids: frozenset[str] = frozenset()
    indexes: frozenset[int] = frozenset()


class Sharing(Strict):
    """How cards are shared: the part that may differ from node to node.

    ``device_memory_scaling`` multiplies the memory that is registered and granted (Volcano's own plugin reads this
    setting and never applies it); ``gpu_memory_factor`` divides it, so that a unit is that many MiB.
    ``device_core_scaling`` multiplies only the node's sum of cores: on a card Volcano never books more than 100.
    """

    device_split_count: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 10
    device_memory_scaling: Scaling = 1.0
    device_core_scaling: Scaling = 1.0
    gpu_memory_factor: Annotated[int, Field(ge=1)] = 1
    disable_core_limit: bool = False
    mode: Mode = Mode.HAMI_CORE
    exclude: Exclusion = Exclusion()
    known_mig_geometries: tuple[dict[str, object], ...] = ()

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

    name: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    settings: Sharing = Sharing()

    def means(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether it is about this node. One without name and labels is about none."""
        if not self.name and not self.labels:
            return False
        return self.name in ("", node) and self.labels.items() <= labels.items()


class Resources(Strict):
    """The names of the resources. Without a name there is no percentage and no priority."""

    count: ResourceName = RESOURCES.count
    memory: ResourceName = RESOURCES.memory
    memory_percentage: OptionalResourceName = ""
    cores: ResourceName = RESOURCES.cores
    priority: OptionalResourceName = ""


class Container(Strict):
    """What every container is told beside its slice.

    ``log_level`` becomes ``LIBCUDA_LOG_LEVEL``, ``core_policy`` ``GPU_CORE_UTILIZATION_POLICY`` (``default`` writes
    nothing), ``active_oom_killer`` ``ACTIVE_OOM_KILLER``; ``pass_device_specs`` hands over the device files as well.
    """

    log_level: Annotated[int, Field(ge=0, le=4)] | None = None
    core_policy: Literal["default", "force", "disable"] = "default"
    active_oom_killer: bool = False
    gdrcopy: bool = True
    gds: bool = True
    mofed: bool = True
    pass_device_specs: bool = False


class Scheduler(Strict):
    """Volcano's scheduler. Without a ``version`` that of its Deployment is looked up.

    ``touch`` and ``handshake`` say whether the node is patched to heal the scheduler's ledger, and whether it gets a
    handshake; ``auto`` does what the version needs, and both for a version that is not known.
    """

    version: str = ""
    namespace: str = "volcano-system"
    deployment: str = "volcano-scheduler"
    lease: str = "volcano"
    touch: Choice = "auto"
    handshake: Choice = "auto"
    touch_interval: Annotated[float, Field(ge=1)] = 5.0


class Health(Strict):
    """Which XID errors count, in the existing plugin's words: ``DP_DISABLE_HEALTHCHECKS``, ``DP_ENABLE_HEALTHCHECKS``.

    After ``recovery`` seconds without a new error a card is probed, and healthy again where it answers.
    """

    disabled: str = ""
    enabled: str = ""
    recovery: Seconds = 300.0


class Monitor(Strict):
    """What containers really use. ``enabled`` reads it; ``feedback`` also writes: it blocks containers of low priority.

    ``directories`` are looked at beside those of the agent itself: where HAMi and Volcano's older plugin have theirs.
    ``proc`` shows the host's processes, if anything does; without them killed processes count on and are told as such.
    """

    enabled: bool = True
    feedback: bool = False
    directories: tuple[AbsolutePath, ...] = ("/usr/local/vgpu/containers", "/tmp/vgpu/containers")  # noqa: S108 - theirs
    proc: AbsolutePath = "/proc"


class AgentListen(Listen):
    """Where the agent answers probes and scrapers."""

    port: Port = 9394


class AgentSettings(Sharing):
    """All of the agent's settings, with the overrides for this node applied.

    ``daemon_set`` is what runs the agents (``namespace/name``); where it is being deleted when an agent ends, the agent
    cleans its node.
    """

    version: Literal[1] = 1
    node: Annotated[str, Field(min_length=1)]
    kubelet_directory: AbsolutePath = "/var/lib/kubelet/device-plugins"
    pod_resources_socket: AbsolutePath = "/var/lib/kubelet/pod-resources/kubelet.sock"
    cdi_directory: AbsolutePath = "/var/run/cdi"
    cdi: Choice = "auto"
    hook_path: AbsolutePath = "/usr/local/vgpu"
    lock_path: AbsolutePath = "/tmp/vgpulock"  # noqa: S108 - where HAMi-core's containers meet on every node
    library_source: AbsolutePath | None = None
    library_sha256: Sha256 = ""
    cards_file: AbsolutePath | None = None
    exclusive: Literal["refuse", "ignore"] = "refuse"
    daemon_set: Annotated[str, Field(pattern=r"^([^/]+/[^/]+)?$")] = ""
    start_jitter: Seconds = 3.0
    resources: Resources = Resources()
    container: Container = Container()
    scheduler: Scheduler = Scheduler()
    health: Health = Health()
    monitor: Monitor = Monitor()
    listen: AgentListen = AgentListen()
    log: Logging = Logging()
    nodes: tuple[NodeOverride, ...] = ()

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
    def spec(self) -> VendorSpec:
        """Volcano's cards under the names of resources that are set."""
        names = self.resources
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
        named = (self.resources.count, self.resources.memory, self.resources.cores)
        usual = (RESOURCES.count, RESOURCES.memory, RESOURCES.cores)
        return tuple(
            f"resources: {name} instead of {other}: from 1.14.3 on Volcano looks for the usual names alone, and takes "
            "the node for one without cards"
            for name, other in zip(named, usual, strict=True)
            if name != other
        )


def _geometries(raw: tuple[dict[str, object], ...]) -> tuple[Geometry, ...]:
    document = {"nvidia": {"knownMigGeometries": list(raw)}}
    return volcano_config.decode(document, key=volcano_config.KEY).geometries
