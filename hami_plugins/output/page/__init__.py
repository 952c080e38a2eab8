"""The plan as one self-contained HTML page."""

from hami_plugins.output.page.plan import (
    Heading,
    PlanRemark,
    ReasonLine,
    RefusalPanel,
    answered,
    render,
)

__all__ = [
    "Heading",
    "PlanRemark",
    "ReasonLine",
    "RefusalPanel",
    "answered",
    "render",
]
