"""Why a pod waits or is where it is, and what would help: reasons, words, ways out."""

from hami_plugins.report.explain.explaining import (
    Explanation,
    Pending,
    Running,
    explain,
)

__all__ = [
    "Explanation",
    "Pending",
    "Running",
    "explain",
]
