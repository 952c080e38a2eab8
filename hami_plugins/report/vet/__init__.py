"""``vet``: what is wrong with manifests, before a cluster sees them. Rules are a table, one module per theme."""

from hami_plugins.report.vet.findings import Finding, Replacement, Rule, Severity
from hami_plugins.report.vet.judge import vet
from hami_plugins.report.vet.reading import Sources, Unreadable, joined, read
from hami_plugins.report.vet.settings import VetSettings
from hami_plugins.report.vet.table import BY_ID, RULES

__all__ = [
    "BY_ID",
    "RULES",
    "Finding",
    "Replacement",
    "Rule",
    "Severity",
    "Sources",
    "Unreadable",
    "VetSettings",
    "joined",
    "read",
    "vet",
]
