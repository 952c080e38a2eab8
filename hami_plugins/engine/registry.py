"""The set of vendors a process works with: built once, on purpose, and refusing collisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hami_plugins.errors import ConfigError
from hami_plugins.model.pods import Container
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec


def replaced(built_in: Iterable[VendorSpec], more: Iterable[VendorSpec]) -> tuple[VendorSpec, ...]:
    """The vendors with those of other packages: in place of the one they replace, under its resource names, or last.

    Raises ``ConfigError`` for one that replaces a vendor that is not there.
    """
    found = {spec.name: spec for spec in built_in}
    added: list[VendorSpec] = []
    for spec in more:
        if not spec.replaces:
            added.append(spec)
        elif (before := found.get(spec.name)) is None:
            raise ConfigError(f"vendor {spec.name} is to replace a built-in one of that name, and there is none")
        else:
            names = replace(before.resources, older=spec.resources.older)
            renamed = dict(zip(spec.resources.all(), names.all(), strict=True))
            counted = tuple(dict.fromkeys(renamed[name] for name in spec.counted_by_scheduler))
            # a name that the settings give to another resource is not an old name of this one
            own = before.resources.all()
            names = replace(names, older=tuple(name for name in names.older if name not in own))
            found[spec.name] = replace(spec, resources=names, counted_by_scheduler=counted)
    return (*found.values(), *added)


class Registry:
    """Vendors by name and by resource, in the order in which they were given."""

    def __init__(self, specs: Iterable[VendorSpec]) -> None:
        by_name: dict[VendorName, VendorSpec] = {}
        by_resource: dict[str, VendorSpec] = {}
        by_list: dict[str, VendorSpec] = {}
        for spec in specs:
            if spec.name in by_name:
                raise ConfigError(f"vendor {spec.name} is registered twice; remove one of the two")
            by_name[spec.name] = spec
            for resource in spec.resources.all():
                other = by_resource.setdefault(resource, spec)
                if other is not spec:
                    raise ConfigError(f"{spec.name} and {other.name} both claim {resource}; give one another name")
            if (other := by_list.setdefault(spec.keys.allocated, spec)) is not spec:
                raise ConfigError(f"{spec.name} and {other.name} both write {spec.keys.allocated}")
        self._by_name: Mapping[VendorName, VendorSpec] = by_name
        self._by_resource: Mapping[str, VendorSpec] = by_resource

    def __iter__(self) -> Iterator[VendorSpec]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: VendorName) -> VendorSpec:
        return self._by_name[name]

    def get(self, name: str) -> VendorSpec | None:
        """The vendor of that name, or ``None``."""
        return self._by_name.get(VendorName(name))

    def owner_of(self, resource: str) -> VendorSpec | None:
        """The vendor that a resource name belongs to, or ``None``."""
        return self._by_resource.get(resource)

    def asked_by(self, container: Container) -> list[VendorSpec]:
        """The vendors whose resources a container names, in the registry's order."""
        owners = (self._by_resource.get(resource) for resource in (*container.limits, *container.requests))
        names = {owner.name for owner in owners if owner is not None}
        return [spec for name, spec in self._by_name.items() if name in names] if names else []

    def noun(self, vendors: Iterable[VendorName]) -> str:
        """The noun for the devices of these vendors: ``card``, unless all of them have another noun."""
        nouns = {spec.noun if (spec := self.get(name)) is not None else "card" for name in vendors}
        return nouns.pop() if len(nouns) == 1 else "card"

    @property
    def resources(self) -> Mapping[str, VendorSpec]:
        """Every resource name with its vendor."""
        return self._by_resource
