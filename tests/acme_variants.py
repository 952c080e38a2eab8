"""Acme with other rules, for tests of one rule."""

from dataclasses import replace
from typing import Any

from hami_plugins.model.vendor import VendorSpec
from tests.acme import SPEC


def requests(**rules: Any) -> VendorSpec:
    """Acme with other rules for requests."""
    return replace(SPEC, requests=replace(SPEC.requests, **rules))


def fitting(**rules: Any) -> VendorSpec:
    """Acme with other rules for fitting."""
    return replace(SPEC, fitting=replace(SPEC.fitting, **rules))


def scoring(**rules: Any) -> VendorSpec:
    """Acme with other rules for scoring."""
    return replace(SPEC, scoring=replace(SPEC.scoring, **rules))


def records(**rules: Any) -> VendorSpec:
    """Acme with other records."""
    return replace(SPEC, records=replace(SPEC.records, **rules))


def topology(**rules: Any) -> VendorSpec:
    """Acme with another topology."""
    return replace(SPEC, topology=replace(SPEC.topology, **rules))
