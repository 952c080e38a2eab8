"""The plan as one self-contained HTML page."""

from hami_plugins.report.page.rendering import (
    Heading,
    Refusal,
    Remark,
    Why,
    answered,
    render,
)

__all__ = [
    "Heading",
    "Refusal",
    "Remark",
    "Why",
    "answered",
    "render",
]
