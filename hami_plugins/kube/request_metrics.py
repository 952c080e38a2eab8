"""Requests to the API server as metrics."""

from __future__ import annotations

from hami_plugins.kube.client import OnRequest
from hami_plugins.observe.metrics import Metrics


def api_requests(metrics: Metrics) -> OnRequest:
    """What ``KubeClient.on_request`` is to be, so that ``metrics`` has ``api_requests_total`` and their duration.

    The label ``code`` is the HTTP status, or ``none`` where no answer came. Only the process's own paths are labels.
    """
    total = metrics.counter(
        "api_requests_total", "Requests to the API server, each try counted", ("verb", "resource", "code")
    )
    seconds = metrics.histogram(
        "api_request_seconds", "Time until the API server answers; for a watch, until it is open", ("verb",)
    )

    def count(verb: str, resource: str, code: int, duration: float) -> None:
        total.labels(verb, resource, str(code) if code else "none").inc()
        seconds.labels(verb).observe(duration)

    return count
