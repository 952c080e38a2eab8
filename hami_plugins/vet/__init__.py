"""``vet``: what is wrong with manifests, before a cluster sees them. Rules are a table, one module per theme."""

from hami_plugins.vet.findings import Replacement, VetFinding, VetRule, VetSeverity
from hami_plugins.vet.reader import UnreadableManifest, VetSources, joined, read
from hami_plugins.vet.runner import vet
from hami_plugins.vet.settings import VetSettings
from hami_plugins.vet.table import BY_ID, RULES

__all__ = [
    "BY_ID",
    "RULES",
    "Replacement",
    "UnreadableManifest",
    "VetFinding",
    "VetRule",
    "VetSettings",
    "VetSeverity",
    "VetSources",
    "joined",
    "read",
    "vet",
]
