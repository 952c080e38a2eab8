"""What an operator can set about the allocator, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__ALLOCATOR__...`` from the environment. How pods are admitted
and ranked, and what vendors call their resources, is set in the words of the planning commands, so that ``plan`` and
the allocator can be given the same sections.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from hami_plugins.allocations.cache import HOLD, KEEP
from hami_plugins.allocations.mode import AllocatorMode, PreemptionMode
from hami_plugins.config.settings import DecisionSettings, NeuronSettings, SchedulerSettings, VolcanoSettings
from hami_plugins.config.values import AbsolutePath, Name, PageListener, Seconds, Strict
from hami_plugins.engine.intake import Rules
from hami_plugins.inputs.fleets.templates import INSTANCE_TYPE
from hami_plugins.model.pods import Pod
from hami_plugins.vendors import volcano
from hami_plugins.vendors.awsneuron import CAPACITY_BLOCK_MARGIN
from hami_plugins.web.settings import ServedProgram, ServedSettings, server_defaults

PREFIX: Final = "HAMI_PLUGINS__ALLOCATOR__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__ALLOCATOR__VOLCANO__MODE``."""

NAME: Final = "hami-plugins-allocator"
"""What the allocator's objects are called unless an operator has it otherwise."""

NEURON: Final = "AWSNeuron"

REQUEST_SECONDS: Final = 60.0
"""How long the API server may carry out a request; what was answered in it may come true until then.

With another ``--request-timeout``, ``reservation`` has to be at least half a minute longer than that.
"""


class KubeSchedulerSettings(SchedulerSettings):
    """kube-scheduler with the allocator as its extender."""

    binds: bool = Field(True, description="Whether kube-scheduler may leave Bindings to the server.")
    nodes: Literal["all", "best"] = Field(
        "all",
        description="Nodes in answers to `filter`: `all` that fit, or the `best` one by its devices, as HAMi answers.",
    )


class VolcanoAllocatorSettings(VolcanoSettings):
    """Volcano's scheduler. ``schedulers`` are those whose pods are marked.

    ``touch_interval`` is how long answers are gathered for a write of their node in mode ``webhook``, of which there is
    at most one a second.
    """

    mode: Literal[AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK] = Field(
        AllocatorMode.EXTENDER,
        description="How allocations are corrected: `extender` answers extender calls, `webhook` corrects Bindings.",
    )
    schedulers: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(
        ("volcano",),
        description="Names of Volcano's schedulers, whose pods are marked.",
    )
    touch_interval: Seconds = Field(
        0.1,
        description="Seconds during which corrections of a node are collected for one write in mode `webhook`.",
    )


class NeuronDeviceSettings(NeuronSettings):
    """AWS Neuron devices. ``capacity_block_margin`` is how long before the end of a Capacity Block its machines go."""

    capacity_block_margin: Seconds = Field(
        CAPACITY_BLOCK_MARGIN,
        description="Seconds before the end of a Capacity Block at which its machines go.",
    )


class NodeTemplateSettings(Strict):
    """Nodes that an autoscaler may create: what those of an instance type, or with all of these labels, are like."""

    instance_type: str = Field("", description="Value of the label `node.kubernetes.io/instance-type` of the nodes.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels that the nodes have.")
    node: dict[str, Any] = Field(
        description="What the nodes are like, as in a fleet file: `{shape: t4x1}`, or `devices`, `model`, `memoryMiB`."
    )

    @property
    def selector(self) -> dict[str, str]:
        """All labels that the nodes have."""
        return self.labels | ({INSTANCE_TYPE: self.instance_type} if self.instance_type else {})


class PreemptionSettings(Strict):
    """Evictions of pods for pods of higher priority that wait for devices."""

    mode: PreemptionMode = Field(
        PreemptionMode.OFF,
        description="`off`; `scheduler`: schedulers learn which pods to evict; `full`: the server also evicts itself.",
    )
    priority_classes: tuple[Name, ...] = Field(
        (),
        description="PriorityClasses of the pods for which the server evicts in mode `full`; `*` stands for all.",
    )
    namespaces: tuple[Name, ...] = Field(
        ("*",),
        description="Namespaces of the pods for which the server evicts in mode `full`; `*` stands for all.",
    )
    dry_run: bool = Field(
        False,
        description="Whether the server only reports, in events and its log, which pods it would evict.",
    )
    at_once: Annotated[int, Field(ge=1)] = Field(
        10,
        description="Pods that the server has evicted and that still run, at most.",
    )
    per_hour: Annotated[int, Field(ge=1)] = Field(
        120,
        description="Pods that the server evicts in an hour, at most.",
    )

    @field_validator("mode", mode="before")
    @classmethod
    def _unquoted(cls, written: object) -> object:
        """YAML reads a bare ``off`` as false."""
        return PreemptionMode.OFF if written is False else written

    @model_validator(mode="after")
    def _names_its_classes(self) -> PreemptionSettings:
        if self.mode is PreemptionMode.FULL and not self.priority_classes:
            raise ValueError("mode full needs priorityClasses: those of the pods that pods may be evicted for, or '*'")
        return self

    def covers(self, pod: Pod) -> bool:
        """Whether the server may evict pods for this one."""
        classes, namespaces = self.priority_classes, self.namespaces
        return ("*" in classes or pod.priority_class in classes) and ("*" in namespaces or pod.namespace in namespaces)


class ChargingSettings(Strict):
    """Accounting of allocated devices for billing."""

    owner_label: str = Field(
        "",
        description="Label of pods whose value is the owner in metrics and journal; without it, their controller.",
    )
    most_owners: Annotated[int, Field(ge=0, le=100_000)] = Field(
        500,
        description="Namespace, queue and owner that metrics name, at most; further owners count as `(other)`.",
    )
    journal_directory: AbsolutePath | None = Field(
        None,
        description="Directory for a journal of allocations, one file a replica; without it none is written.",
    )


@server_defaults(name=NAME, namespace="kube-system", port=9395)
class AllocatorSettings(DecisionSettings, ServedSettings):
    """All of the server's settings. ``vendors`` are those whose devices it gives.

    ``weight`` is the weight of the score of a node's devices among those of the scheduler; 0 leaves the nodes to it.
    ``reservation`` is how long what a Binding was answered with is kept where nothing else ends it, and ``hold`` how
    long what a scheduler asked for last, while no Binding was sent.
    """

    vendors: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(
        (volcano.SPEC.name, NEURON),
        description="Vendors whose devices the server allocates, by the names that `hami-plugins vendors` lists.",
    )
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        10.0,
        description="Weight of the score of a node's devices among the scheduler's scores; 0 turns it off.",
    )
    reservation: Annotated[float, Field(gt=REQUEST_SECONDS, le=3600)] = Field(
        KEEP,
        description="Seconds that devices of an unfinished Binding stay reserved; 30 above the API server's timeout.",
    )
    hold: Annotated[float, Field(ge=1, le=3600)] = Field(
        HOLD,
        description="Seconds that devices stay reserved for a scheduler's last call without a Binding.",
    )
    scheduler: KubeSchedulerSettings = Field(default_factory=KubeSchedulerSettings)
    volcano: VolcanoAllocatorSettings = Field(default_factory=VolcanoAllocatorSettings)
    templates: tuple[NodeTemplateSettings, ...] = Field(
        (),
        description="What nodes that do not exist yet are like, for autoscalers; the first that fits counts.",
    )
    preemption: PreemptionSettings = PreemptionSettings()
    neuron: NeuronDeviceSettings = Field(default_factory=NeuronDeviceSettings)
    page: PageListener = PageListener()
    charging: ChargingSettings = Field(default_factory=ChargingSettings)

    def rules(self) -> Rules:
        """How pods are admitted and ranked: the policy also orders the cards of a node, as in Volcano from 1.15 on."""
        found = super().rules()
        return replace(found, policies=replace(found.policies, volcano_orders_cards=True))


SETTINGS: Final = ServedProgram(
    name="allocator",
    model=AllocatorSettings,
    prefix=PREFIX,
    commands="allocator",
)
