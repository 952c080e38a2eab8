"""What is the smallest change that makes a refused pod fit."""

from hami_plugins.engine.relax.offers import (
    relax,
)

__all__ = [
    "relax",
]
