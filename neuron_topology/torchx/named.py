"""The named resources as TorchX wants them: a function for each, by entry point or by decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from neuron_topology.core import names
from neuron_topology.core.named_resources import NAMED, NamedResource

SOURCE: Final = "TORCHX_PLUGINS_SOURCE"
"""Where newer releases of TorchX look for plugins; ``1`` is decorated functions alone, without entry points."""

_BY_ATTRIBUTE: Final = {each.attribute: each for each in NAMED.values()}


def __getattr__(attribute: str) -> Callable[[], Any]:
    """What an entry point names: ``neuron_topology.torchx.named:trn1_32xlarge_8``."""
    resource = _BY_ATTRIBUTE.get(attribute)
    if resource is None:
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
    return lambda: made(resource)


def made(resource: NamedResource) -> Any:
    """TorchX' own value. Its capability becomes the pods' node selector."""
    from torchx.specs import Resource

    return Resource(
        cpu=resource.cpu,
        gpu=0,
        memMB=resource.memory_mb,
        capabilities={names.INSTANCE_LABEL: resource.instance_type},
        devices=dict(resource.devices),
    )


def register(module: str, environment: Mapping[str, str]) -> None:
    """Put decorated functions into ``module``, where TorchX scans for them.

    Only where it reads no entry points: a name from both would be reported as a collision.
    """
    if environment.get(SOURCE) != "1":
        return
    from torchx.plugins import register as decorators

    for resource in NAMED.values():
        decorators.named_resource(name=resource.name)(_function(resource, module))


def _function(resource: NamedResource, module: str) -> Callable[[], Any]:
    def factory() -> Any:
        return made(resource)

    factory.__module__ = module
    factory.__name__ = factory.__qualname__ = resource.attribute
    return factory
