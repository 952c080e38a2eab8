"""Why a pod waits or was placed where it is, and remedies: reasons, messages, suggestions."""

from hami_plugins.explain.explanation import (
    Explanation,
    PendingExplanation,
    RunningExplanation,
    explain,
)

__all__ = [
    "Explanation",
    "PendingExplanation",
    "RunningExplanation",
    "explain",
]
