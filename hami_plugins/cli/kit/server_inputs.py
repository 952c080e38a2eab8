"""Inputs of a command about a server: the server's settings and its cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic

from hami_plugins.cli.kit.service import file_text
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.settings import Of, ServedProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInputs(Generic[Of]):
    """Options of a command. ``component`` is what an API server knows the program by."""

    program: ServedProgram[Of]
    component: str
    config: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that set something."""
        return os.environ

    def settings(self) -> Of:
        """The settings."""
        return self.program.load(file_text(self.config) or "", self.environment)

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=self.component)

    def counted_client(self, metrics: Metrics) -> KubeClient:
        """The cluster, with each request in the metrics."""
        return replace(self.client(), on_request=api_requests(metrics))
