"""One value of a document and the typed values inside it; whatever has the wrong type is an error with its place.

As in Kubernetes, a member that is ``null`` is a member that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hami_plugins.errors import ManifestError, WireError
from hami_plugins.inputs.manifests.reader import Document, Path
from hami_plugins.model.units import INT32_MAX
from hami_plugins.wire import quantity


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A mapping inside a document, and the way to it."""

    document: Document
    path: Path
    members: Mapping[str, object]

    @classmethod
    def top(cls, document: Document) -> Field:
        """The whole object."""
        return cls(document, (), document.raw)

    def fault(self, why: str, *steps: str | int) -> ManifestError:
        """The error for this mapping or, with steps, for a value inside it."""
        return self.document.fault((*self.path, *steps), why)

    def has(self, key: str) -> bool:
        """Whether the member is there and not null."""
        return self.members.get(key) is not None

    def inner(self, key: str) -> Field:
        """A member that is a mapping; empty when it is absent."""
        value = self.members.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.fault("has to be a mapping", key)
        return Field(self.document, (*self.path, key), value)

    def needed(self, key: str) -> Field:
        """A member that is a mapping and has to be there."""
        if not self.has(key):
            raise self.fault(f"{key} is missing")
        return self.inner(key)

    def items(self, key: str) -> tuple[Field, ...]:
        """A member that is a list of mappings; empty when it is absent."""
        value = self.members.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.fault("has to be a list", key)
        for at, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.fault("has to be a mapping", key, at)
        return tuple(Field(self.document, (*self.path, key, at), item) for at, item in enumerate(value))

    def text(self, key: str, default: str = "") -> str:
        """A member that is text."""
        value = self.members.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fault("has to be text; put it in quotes", key)
        return value

    def texts(self, key: str) -> Mapping[str, str]:
        """A member whose members are all text, such as labels; those that are null count as empty."""
        inner = self.inner(key)
        return {name: inner.text(name) for name in inner.members}

    def flag(self, key: str) -> bool:
        """A member that is true or false; false when it is absent."""
        value = self.members.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.fault("has to be true or false, without quotes", key)
        return value

    def count(self, key: str, default: int, *, most: int = INT32_MAX) -> int:
        """A member that is a whole number from 0 to ``most``."""
        value = self.members.get(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault("has to be a whole number, without quotes", key)
        if value < 0:
            raise self.fault(f"{value} is negative", key)
        if value > most:
            raise self.fault(f"{value} is more than {most}, the most that is read", key)
        return value

    def amounts(self, key: str, *, signed: bool = False) -> Mapping[str, int]:
        """A member that is a resource list, in nano units, none negative; ``signed`` lets extended resources be."""
        inner = self.inner(key)
        return {name: inner.amount(name, signed=signed and "/" in name) for name in inner.members}

    def amount(self, key: str, *, signed: bool = False) -> int:
        """A member that has to be there and is a quantity, in nano units; 0 or more unless ``signed``."""
        value = self.members.get(key)
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise self.fault("has to be a quantity such as 4, 500m or 16Gi", key)
        try:
            amount = quantity.parse(value, key=key)
        except WireError as error:
            raise self.fault(error.why, key) from error
        if amount.nano < 0 and not signed:
            raise self.fault(f"{amount} is negative", key)
        return amount.nano
