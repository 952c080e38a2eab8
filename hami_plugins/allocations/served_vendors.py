"""The vendors whose devices an allocator gives."""

from __future__ import annotations

from collections.abc import Collection

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.model.dialect import Dialect


def served_vendors(registry: Registry, names: Collection[str]) -> Registry:
    """Those of these names. Raises ``ConfigError`` for a name of none; Koordinator's scheduler allocates its own."""
    known = [spec for spec in registry if spec.dialect is not Dialect.KOORDINATOR]
    wrong = [name for name in names if name not in {spec.name for spec in known}]
    if wrong:
        listed = ", ".join(spec.name for spec in known)
        raise ConfigError(f"settings: vendors: {wrong[0]}: unknown vendor; the vendors are {listed}")
    return Registry(spec for spec in known if spec.name in names)
