"""The served definition of Volcano's Job: read once for a while, and kept where the API server is silent."""

from __future__ import annotations

from typing import Any

from hami_plugins.errors import KubeError
from neuron_topology.server.job_definition import JobDefinition
from tests.unit.neuron_topology.jobs.test_served import an_openapi


class Answers:
    """An API server that gives one answer after another."""

    def __init__(self, *answers: Any) -> None:
        self.left = list(answers)

    def get(self, path: str) -> Any:
        assert path == "/openapi/v3/apis/batch.volcano.sh/v1alpha1"
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_answer_counts_for_ten_minutes_and_survives_a_silent_server() -> None:
    clock = [0.0]
    api: Any = Answers(an_openapi("mode"), an_openapi("mode", "highestTierName"), KubeError("away", status=503))
    definition = JobDefinition(api, now=lambda: clock[0])
    assert definition.kept == frozenset({"mode"})
    clock[0] = 599.0
    assert definition.kept == frozenset({"mode"})
    clock[0] = 600.0
    assert definition.kept == frozenset({"mode", "highestTierName"})
    clock[0] = 1200.0
    assert definition.kept == frozenset({"mode", "highestTierName"})


def test_where_the_server_never_said_anything_nothing_is_known() -> None:
    api: Any = Answers(KubeError("none", status=404))
    assert JobDefinition(api, now=lambda: 0.0).kept is None
