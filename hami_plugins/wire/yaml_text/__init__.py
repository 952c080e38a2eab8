"""YAML and JSON text to plain values, for every file that a person writes. Depth and what aliases add are bounded."""

from hami_plugins.wire.yaml_text.builder import NOWHERE, TextPosition, YamlDocument, complaint
from hami_plugins.wire.yaml_text.reader import read

__all__ = ["NOWHERE", "TextPosition", "YamlDocument", "complaint", "read"]
