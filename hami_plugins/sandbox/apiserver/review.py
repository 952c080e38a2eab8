"""What stands between a request and the store: a gate that asks webhooks, without anybody waiting for the store.

A webhook may take seconds, and no lock is held meanwhile. So a request that has to be reviewed is aborted with
``ReviewNeededError``, the webhooks are called, and the request is handled again, now with their answers. If the object
has changed in between, the change differs and is reviewed again, as in the real server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import orjson

from hami_plugins.errors import HamiPluginsError
from hami_plugins.sandbox.apiserver.answers import MODIFIED, conflict, internal_error
from hami_plugins.sandbox.apiserver.decoder import DecodeError, decoded
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.apiserver.lists import shown, stored_form
from hami_plugins.sandbox.apiserver.store import ApiStore, Key
from hami_plugins.sandbox.apiserver.webhooks import (
    STORAGES,
    AdmissionAttributes,
    Stage,
    Webhook,
    configured,
    namespace_labels,
)
from hami_plugins.wire.fields import Json

_MOST_REVIEWS: Final = 5
"""Reviews of one change before its client gets a conflict error."""


class AdmissionChain(Protocol):
    """Asked about each change before it is written."""

    def mutated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> Json:
        """The object as it is to be written; for a deletion, nothing."""

    def validated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> None:
        """Raises where it must not be written."""

    def birth(self, new_uid: Callable[[], str], now: Callable[[], str]) -> tuple[str, str]:
        """Identity and time of a new object, the same however often the request is handled."""


class AdmitEverything:
    """Lets everything through as it is."""

    def mutated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> Json:  # noqa: ARG002
        """See ``AdmissionChain``."""
        return obj or {}

    def validated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> None:
        """See ``AdmissionChain``."""

    def birth(self, new_uid: Callable[[], str], now: Callable[[], str]) -> tuple[str, str]:
        """See ``AdmissionChain``."""
        return new_uid(), now()


OPEN: Final[AdmissionChain] = AdmitEverything()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What webhooks are to be asked, and which; ``labels`` are those of the change's namespace."""

    stage: Stage
    change: AdmissionAttributes
    webhooks: tuple[Webhook, ...]
    labels: Mapping[str, str] | None

    @property
    def key(self) -> bytes:
        """The same for the same question."""
        change = self.change
        about = (self.stage, change.operation, change.resource, change.subresource, change.namespace, change.name)
        return orjson.dumps([about, change.obj, change.old], option=orjson.OPT_SORT_KEYS)


class ReviewNeededError(HamiPluginsError):
    """The request cannot go on before webhooks were asked."""

    def __init__(self, review: Review) -> None:
        super().__init__(f"{review.stage} webhooks are to be asked")
        self.review = review


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """The object that came of a review (``None`` for a deletion), and what it warns of."""

    obj: Json | None
    warnings: tuple[str, ...] = ()


Ask = Callable[[Review], Awaitable[ReviewVerdict]]
"""Asks the webhooks. Raises ``ApiError`` where one refuses, or cannot be asked and must be."""


@dataclass(slots=True, kw_only=True)
class WebhookAdmission:
    """The gate for one request, whose path, caller and dryness are given."""

    store: ApiStore
    group: str
    version: str
    resource: str
    subresource: str
    dry: bool
    user: str
    _verdicts: dict[bytes, ReviewVerdict] = field(default_factory=dict)
    _reviews: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _born: tuple[str, str] | None = None

    def mutated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> Json:
        """See ``AdmissionChain``."""
        verdict = self._verdict("mutating", self._change(operation, kind, key, obj, old))
        if verdict is None or verdict.obj is None:
            return obj or {}
        try:
            return decoded(kind, stored_form(kind, verdict.obj))
        except DecodeError as error:
            raise internal_error(str(error)) from error

    def validated(self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None) -> None:
        """See ``AdmissionChain``."""
        self._verdict("validating", self._change(operation, kind, key, obj, old))

    def birth(self, new_uid: Callable[[], str], now: Callable[[], str]) -> tuple[str, str]:
        """See ``AdmissionChain``."""
        self._born = self._born or (new_uid(), now())
        return self._born

    async def review(self, needed: ReviewNeededError, ask: Ask) -> None:
        """Have it reviewed. Raises ``ApiError`` where it is refused, or where others change the object all the time."""
        review = needed.review
        change = review.change
        about = (review.stage, change.operation, change.kind.kind, change.name)
        self._reviews[about] += 1
        if self._reviews[about] > _MOST_REVIEWS:
            raise conflict(change.kind, change.name, MODIFIED)
        self._verdicts[review.key] = await ask(review)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that webhooks warned of, in order, once."""
        return tuple(dict.fromkeys(text for verdict in self._verdicts.values() for text in verdict.warnings))

    def _change(
        self, operation: str, kind: ResourceKind, key: Key, obj: Json | None, old: Json | None
    ) -> AdmissionAttributes:
        return AdmissionAttributes(
            operation=operation,
            kind=kind,
            group=self.group,
            version=self.version,
            resource=self.resource,
            subresource=self.subresource,
            namespace=key.namespace,
            name=key.name,
            dry=self.dry,
            user=self.user,
            obj=None if obj is None else shown(kind, obj),
            old=None if old is None else shown(kind, old),
        )

    def _verdict(self, stage: Stage, change: AdmissionAttributes) -> ReviewVerdict | None:
        """The verdict on a change; ``None`` where no webhook wants it."""
        if change.kind.storage in STORAGES:
            return None
        labels = namespace_labels(self.store, change)
        hooks = tuple(configured(self.store, stage))
        if not any(hook.wants(change, labels) for hook in hooks):
            return None
        # All of them: one that does not want the object may want what another makes of it.
        review = Review(stage=stage, change=change, webhooks=hooks, labels=labels)
        known = self._verdicts.get(review.key)
        if known is None:
            raise ReviewNeededError(review)
        return known


def changed(change: AdmissionAttributes, obj: Json) -> AdmissionAttributes:
    """The same change of another object, as the next webhook sees it."""
    return replace(change, obj=obj)
