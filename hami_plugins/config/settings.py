"""What an operator can set: HAMi's and Volcano's scheduling words, and HAMi's device config.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__SECTION__KEY`` from the environment.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from importlib import metadata
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hami_plugins.config import PREFIX, texts
from hami_plugins.config.device_config import DeviceConfig, configured
from hami_plugins.config.reference import SettingsProgram
from hami_plugins.engine.intake import OVERCOMMIT, Rules
from hami_plugins.engine.mutate import WebhookSettings
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.units import VendorName
from hami_plugins.vendors import BUILTIN, awsneuron, volcano
from hami_plugins.vendors.volcano_releases import DeviceAssigner, known_names, known_release
from hami_plugins.wire import volcano_config

_PRODUCTS: Final = "hami_plugins.commands"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class SchedulerSettings(_Strict):
    """HAMi's scheduler, in the words of its chart."""

    name: str = Field("hami-scheduler", description="Name of HAMi's scheduler in the cluster.")
    force_overwrite_default_scheduler: bool = Field(
        True,
        description="Whether HAMi's webhook replaces the default scheduler in pods that request devices.",
    )
    node_scheduler_policy: Literal["binpack", "spread"] = Field(
        "binpack",
        description="Order of nodes for pods that name no policy.",
    )
    gpu_scheduler_policy: str = Field(
        "spread",
        description="Order of a node's devices for pods that name no policy: `binpack`, `spread`, `numa`, and so on.",
    )


class VolcanoSettings(_Strict):
    """Volcano's scheduler: ``deviceshare.SchedulePolicy`` of its configuration, and its device configuration.

    ``queue_plugin`` is the plugin that divides the cluster among queues; empty takes ``capacity`` where any queue has
    something ``deserved``, else ``proportion``. ``queue_hierarchy`` is ``enableHierarchy`` of ``capacity``, with which
    limits of queues hold for those under them; where it is not set, they do if any queue has a parent.
    ``overcommit_factor`` is that of the plugin ``overcommit``, which takes 1.2 for whatever is below 1.
    ``device_config`` is the content of ``device-config.yaml`` in Volcano's ConfigMap. Without it Volcano knows no MIG
    geometries and does not read memory percentages. ``release`` is the scheduler's (``1.14.1``), ``assigner`` who
    writes down which cards pods get; where they are not set, ``vet`` looks for them among the objects.
    """

    schedule_policy: Literal["binpack", "spread", ""] = Field(
        "binpack",
        description="Volcano's `deviceshare.SchedulePolicy`; empty scores nothing.",
    )
    queue_plugin: Literal["proportion", "capacity", ""] = Field(
        "",
        description="Queue plugin. Empty: `capacity` where a queue has `deserved`, else `proportion`.",
    )
    queue_hierarchy: bool | None = Field(
        None,
        description="`enableHierarchy` of plugin `capacity`. Not set: true if a queue has a parent.",
    )
    overcommit_factor: float = Field(
        default=float(OVERCOMMIT),
        ge=1,
        le=1000,
        description="Factor of plugin `overcommit`: how much PodGroups may request in all.",
    )
    device_config: dict[str, Any] | None = Field(
        None,
        description="Content of `device-config.yaml` in Volcano's ConfigMap: resource names, MIG geometries.",
    )
    release: str = Field(
        "",
        description="Release of Volcano's scheduler, such as 1.14.1. Not set: `vet` takes it from the objects given.",
    )
    assigner: DeviceAssigner | None = Field(
        None,
        description="Which component assigns devices. Not set: `vet` takes it from the objects given.",
    )

    @field_validator("release")
    @classmethod
    def _is_a_release(cls, found: str) -> str:
        if found and known_release(found) is None:
            raise ValueError(f"not a known release of Volcano; write one of {known_names()}, or a series such as 1.14")
        return found

    @field_validator("device_config")
    @classmethod
    def _is_readable(cls, found: dict[str, Any] | None) -> dict[str, Any] | None:
        if found is not None:
            try:
                volcano_config.decode(found)
            except WireError as error:
                raise ValueError(f"{error.key}: {error.why}") from error
        return found


class NeuronSettings(_Strict):
    """AWS Neuron devices: which component allocates them.

    ``hami-plugins`` allocates linked sets by the tables of each instance type, ``hami`` is HAMi's own scheduler.
    """

    allocator: Literal["hami-plugins", "hami"] = Field(
        "hami-plugins",
        description="Which component allocates Neuron devices: `hami-plugins` (linked sets) or HAMi's own scheduler.",
    )


class DecisionSettings(_Strict):
    """Everything that changes a decision. ``devices`` is the content of HAMi's ``device-config.yaml``."""

    version: Literal[1] = Field(1, description="Version of the file's format.")
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    volcano: VolcanoSettings = Field(default_factory=VolcanoSettings)
    neuron: NeuronSettings = Field(default_factory=NeuronSettings)
    devices: DeviceConfig = Field(default_factory=DeviceConfig)

    def registry(self) -> Registry:
        """The vendors as set."""
        specs = configured(BUILTIN, self.devices)
        if self.volcano.device_config is not None:
            as_set = volcano.configured(volcano_config.decode(self.volcano.device_config))
            specs = tuple(as_set if spec.name == as_set.name else spec for spec in specs)
        return Registry(specs)

    @property
    def concerns(self) -> tuple[str, ...]:
        """What is allowed and yet changes nothing, with the path of it."""
        if self.volcano.device_config is None:
            return ()
        ignored = volcano_config.decode(self.volcano.device_config).ignored
        return tuple(f"volcano.deviceConfig.nvidia.{each}" for each in ignored)

    def unreplaced(self) -> frozenset[VendorName]:
        """The built-in vendors whose place no vendor of another package takes."""
        return frozenset({awsneuron.SPEC.name} if self.neuron.allocator == "hami" else ())

    def rules(self) -> Rules:
        """How pods are admitted and ranked as set."""
        return Rules(
            webhook=WebhookSettings(
                scheduler=self.scheduler.name, takes_over_default=self.scheduler.force_overwrite_default_scheduler
            ),
            policies=PolicyDefaults(
                node=self.scheduler.node_scheduler_policy,
                device=self.scheduler.gpu_scheduler_policy,
                volcano=self.volcano.schedule_policy,
            ),
            queue_plugin=self.volcano.queue_plugin,
            queue_hierarchy=self.volcano.queue_hierarchy,
            overcommit=Fraction(str(self.volcano.overcommit_factor)),
        )


class Settings(DecisionSettings, BaseSettings):
    """Inputs of the planning commands."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix=PREFIX, env_nested_delimiter="__")

    version: Literal[1] = Field(
        1,
        description="Version of the file's format. A file without it may be HAMi's or Volcano's `device-config.yaml`.",
    )

    extended_resource_toleration: bool | None = Field(
        None,
        description="Whether the API server has the admission plugin `ExtendedResourceToleration`, as EKS and GKE do. "
        "Not set: it is recognised by the nodes.",
    )

    def rules(self) -> Rules:
        """See ``DecisionSettings``."""
        return replace(super().rules(), adds_tolerations=self.extended_resource_toleration)

    @classmethod
    def settings_customise_sources(  # the library names the arguments, and calls with names
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file."""
        return env_settings, init_settings


PROGRAM: Final = SettingsProgram(
    name="hami-plugins",
    model=Settings,
    prefix=PREFIX,
    option="--settings FILE",
    commands="plan, vet, explain, snapshot, vendors, allocation-policy, koordinator translate",
)


def parse(text: str, *, source: str = "settings") -> Settings:
    """Settings from YAML. A file without ``version`` that is HAMi's or Volcano's device config is taken as such, also
    where it is the ConfigMap that holds it.

    Raises ``ConfigError`` with path, value and what is allowed.
    """
    raw = texts.unwrapped(texts.mapping(text, source), volcano_config.KEY, source)
    if "version" not in raw and raw.keys() & DeviceConfig.model_fields.keys():
        raw = {"volcano": {"deviceConfig": raw}} if _is_volcanos(raw) else {"devices": raw}
    return made(raw, source=source)


def _is_volcanos(raw: dict[str, Any]) -> bool:
    """Both schedulers call their file and its first section alike; the resource names tell them apart."""
    nvidia = raw.get("nvidia")
    return isinstance(nvidia, dict) and str(nvidia.get("resourceCountName", "")).startswith("volcano.sh/")


def _of_a_product(section: str) -> bool:
    """Whether a variable is for a process of a product, whose settings are read there."""
    return any(section.replace("_", "-").startswith(each.name) for each in metadata.entry_points(group=_PRODUCTS))


def made(raw: dict[str, Any], *, source: str = "settings") -> Settings:
    """Settings from parsed values and the environment.

    Raises ``ConfigError`` as ``parse``, and for a variable with our prefix that sets nothing.
    """
    for name in sorted(os.environ):
        section = name.removeprefix(PREFIX).partition("__")[0].lower()
        if name.startswith(PREFIX) and section not in Settings.model_fields and not _of_a_product(section):
            known = tuple(f"{PREFIX}{field.upper()}" for field in Settings.model_fields)
            raise ConfigError(f"environment: {name}: {texts.unknown(name, known)}{texts.LISTED}")
    try:
        return Settings(**raw)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(f"{source}: {line}" for line in texts.complaints(error, Settings, listed=texts.LISTED))
        ) from error
