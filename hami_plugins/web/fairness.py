"""Which of many entries a server gives up first: fair between the addresses of its clients."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class ByClient(Generic[Key]):
    """Keys by the address of their client, oldest first."""

    __slots__ = ("_client", "_keys")

    def __init__(self) -> None:
        self._client: dict[Key, str] = {}
        self._keys: dict[str, dict[Key, None]] = {}

    def add(self, key: Key, client: str) -> None:
        """Add a key as the newest of its client, or make it the newest."""
        self.discard(key)
        self._client[key] = client
        self._keys.setdefault(client, {})[key] = None

    def discard(self, key: Key) -> None:
        """Remove a key, if it is there."""
        client = self._client.pop(key, None)
        if client is None:
            return
        keys = self._keys[client]
        del keys[key]
        if not keys:
            del self._keys[client]

    @property
    def clients(self) -> int:
        """How many clients have keys."""
        return len(self._keys)

    def count(self, client: str) -> int:
        """How many keys a client has."""
        return len(self._keys.get(client, ()))

    def victim(self) -> Key | None:
        """The oldest key of the client with the most keys; ``None`` without keys.

        One client that opens thousands loses its own, and a client that has a few keeps them.
        """
        if not self._keys:
            return None
        most = max(self._keys, key=lambda client: len(self._keys[client]))
        return next(iter(self._keys[most]))

    def __len__(self) -> int:
        return len(self._client)
