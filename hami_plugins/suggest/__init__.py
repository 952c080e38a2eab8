"""What is the smallest change that makes a refused pod fit."""

from hami_plugins.suggest.suggestions import (
    relax,
)

__all__ = [
    "relax",
]
