"""What an operator can set: HAMi's and Volcano's scheduling words, and HAMi's device config.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__SECTION__KEY`` from the environment.
"""

from __future__ import annotations

from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hami_plugins.config.device_config import DeviceConfig, configured
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.mutate import WebhookSettings
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.vendors import BUILTIN


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class SchedulerSettings(_Strict):
    """HAMi's scheduler, in the words of its chart."""

    name: str = "hami-scheduler"
    force_overwrite_default_scheduler: bool = True
    node_scheduler_policy: Literal["binpack", "spread"] = "binpack"
    gpu_scheduler_policy: str = "spread"


class VolcanoSettings(_Strict):
    """Volcano's scheduler: ``deviceshare.SchedulePolicy`` of its configuration."""

    schedule_policy: Literal["binpack", "spread", ""] = "binpack"


class Settings(BaseSettings):
    """Everything that changes a decision. ``devices`` is the content of HAMi's ``device-config.yaml``."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix="HAMI_PLUGINS__", env_nested_delimiter="__"
    )

    version: Literal[1] = 1
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    volcano: VolcanoSettings = Field(default_factory=VolcanoSettings)
    devices: DeviceConfig = Field(default_factory=DeviceConfig)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file."""
        return env_settings, init_settings

    def registry(self) -> Registry:
        """The vendors as set."""
        return Registry(configured(BUILTIN, self.devices))

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
        )


def parse(text: str, *, source: str = "settings") -> Settings:
    """Settings from YAML. A file that is HAMi's own device config (no ``version``) is taken as such.

    Raises ``ConfigError`` with path, value and what is allowed.
    """
    try:
        raw = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not YAML: {error}") from error
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: not a mapping but {type(raw).__name__}")
    if "version" not in raw and raw.keys() & DeviceConfig.model_fields.keys():
        raw = {"devices": raw}
    return made(raw, source=source)


def made(raw: dict[str, Any], *, source: str = "settings") -> Settings:
    """Settings from parsed values and the environment."""
    try:
        return Settings(**raw)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {line}" for line in _complaints(error))) from error


def _complaints(error: ValidationError) -> list[str]:
    lines: list[str] = []
    for each in error.errors(include_url=False):
        where = ".".join(str(part) for part in each["loc"]) or "(top)"
        lines.append(f"{where}: {each['msg']} (found {each['input']!r})")
    return lines
