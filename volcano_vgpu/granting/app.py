"""The server of Volcano's grants: the shared one, with what Volcano's own ledger needs beside it in mode ``guard``."""

from __future__ import annotations

from contextlib import nullcontext

from hami_plugins.granting.metrics import GrantMetrics
from hami_plugins.granting.server import LINGER_SECONDS, READ_SECONDS, GrantServer
from hami_plugins.granting.term import Filling
from hami_plugins.kube.election import BoundedApi
from hami_plugins.model.vendor import VendorSpec
from volcano_vgpu.granting.mode import Mode
from volcano_vgpu.granting.product import product_of
from volcano_vgpu.granting.settings import GrantSettings
from volcano_vgpu.granting.touching import Toucher


def grant_server(  # noqa: PLR0913 - what it is made of
    settings: GrantSettings,
    api: BoundedApi,
    spec: VendorSpec,
    *,
    metrics: GrantMetrics,
    identity: str,
    filling: Filling = nullcontext,
    linger: float = LINGER_SECONDS,
) -> GrantServer:
    """One replica; the parameters are those of ``GrantServer``.

    In mode ``ledger`` Volcano counts no cards, so that no node has to be written.
    """
    guards = settings.mode is Mode.GUARD
    return GrantServer(
        settings,
        api,
        product_of(spec, settings.rules, mode=settings.mode, schedulers=settings.schedulers),
        metrics=metrics,
        identity=identity,
        filling=filling,
        linger=linger,
        writer=Toucher(api.within(READ_SECONDS), interval=settings.touch_interval, metrics=metrics) if guards else None,
    )
