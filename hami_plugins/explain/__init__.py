"""Why a pod waits or is where it is, and what would help: reasons, words, ways out."""

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
