"""Devices of claims as documents show them."""

from __future__ import annotations

from hami_plugins.engine.claims.reasons import amount_words
from hami_plugins.output import schema
from hami_plugins.plan.claimed import DeviceOfClaim


def document(each: DeviceOfClaim) -> schema.ClaimedDeviceDocument:
    """One device of one claim."""
    found = each.device
    return {
        "claim": each.claim,
        "request": found.request,
        "driver": found.device.pool.driver,
        "pool": found.device.pool.name,
        "device": found.device.name,
        "shared": bool(found.share),
        "consumed": {name: amount_words(amount) for name, amount in found.consumed},
        "adminAccess": found.admin,
    }
