"""Requests to the API server as metrics."""

from __future__ import annotations

from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe.metrics import Metrics


def test_requests_are_counted_by_verb_resource_and_code() -> None:
    metrics = Metrics("agent")
    count = api_requests(metrics)
    count("patch", "nodes/status", 200, 0.1)
    count("patch", "nodes/status", 200, 0.3)
    count("get", "pods", 0, 5.0)
    assert metrics.value("api_requests_total", verb="patch", resource="nodes/status", code="200") == 2
    assert metrics.value("api_requests_total", verb="get", resource="pods", code="none") == 1
    assert metrics.value("api_request_seconds_sum", verb="patch") == 0.4
