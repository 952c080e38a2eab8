"""``neuron submit`` and its neighbours typed in, with the cluster's kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.unit.neuron_topology.typing_in import Said, type_in


@dataclass(frozen=True, slots=True)
class Typing:
    """Called with the arguments of ``submit``, or of another command."""

    capsys: pytest.CaptureFixture[str]
    kubeconfig: str

    def __call__(self, *arguments: str, command: str = "submit") -> Said:
        return type_in(self.capsys, command, "--kubeconfig", self.kubeconfig, *arguments)
