"""Reads the agent's settings: its YAML, then the environment, member by member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.config import layers, texts
from hami_plugins.config.layers import Layer
from hami_plugins.config.reference import SettingsProgram
from hami_plugins.errors import ConfigError
from neuron_topology.core.agent.settings import NeuronAgentSettings

PREFIX: Final = "HAMI_PLUGINS__NEURON_AGENT__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__NEURON_AGENT__HEALTH_SECONDS``."""

SETTINGS: Final = SettingsProgram(
    name="neuron-agent", model=NeuronAgentSettings, prefix=PREFIX, option="--config FILE", commands="neuron agent"
)


def load(text: str, env: Mapping[str, str]) -> NeuronAgentSettings:
    """The settings; ``text`` may be empty. Raises ``ConfigError`` with the source, the path, the value and the rule."""
    found = [
        Layer("settings", texts.mapping(text, "settings")),
        layers.of_environment(env, PREFIX, {"NODE_NAME": ("node",)}),
    ]
    if "node" not in layers.merged(found):
        raise ConfigError("settings: node: the name of this node is missing; set NODE_NAME from spec.nodeName")
    return layers.made(NeuronAgentSettings, found)
