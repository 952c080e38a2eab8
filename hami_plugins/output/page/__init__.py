"""A plan, or the devices of a cluster, as one self-contained HTML page."""

from hami_plugins.output.page.cluster import Heading, PlanRemark, ReasonLine, RefusalPanel
from hami_plugins.output.page.defrag import moves_page
from hami_plugins.output.page.nodes import PageService, report_page
from hami_plugins.output.page.plan import answered, render

__all__ = [
    "Heading",
    "PageService",
    "PlanRemark",
    "ReasonLine",
    "RefusalPanel",
    "answered",
    "moves_page",
    "render",
    "report_page",
]
