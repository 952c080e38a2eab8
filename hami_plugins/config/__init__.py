"""Settings: YAML text and environment in, frozen values or a refusal out."""

from typing import Final

PREFIX: Final = "HAMI_PLUGINS__"
"""How the environment variables begin that set anything."""
