"""The behaviour of a koordlet, from the arguments of its pod."""

from __future__ import annotations

from typing import Any

import pytest

from koordinator_adapter.core.devices.koordlet import Koordlet, koordlet_of


def a_koordlet(*args: str, command: tuple[str, ...] = ()) -> dict[str, Any]:
    containers = ["nonsense", {"name": "koordlet", "command": list(command), "args": list(args)}, {"name": "other"}]
    return {"metadata": {"labels": {"koord-app": "koordlet"}}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ((), Koordlet(False, False)),
        (("-feature-gates=AllAlpha=false,Accelerators=true",), Koordlet(True, False)),
        (("-feature-gates=AllAlpha=true,Accelerators=false",), Koordlet(False, True)),
        (("--feature-gates=GPUEnvInject=true,Accelerators=false",), Koordlet(False, True)),
        (("--feature-gates", "Accelerators=true, GPUEnvInject=T"), Koordlet(True, True)),
        (("--feature-gates",), Koordlet(False, False)),
        (("feature-gates=Accelerators=true", "-v=4"), Koordlet(False, False)),
        (("-feature-gates=Accelerators",), Koordlet(False, False)),
    ],
)
def test_gates_are_off_unless_an_argument_switches_them_on(args: tuple[str, ...], found: Koordlet) -> None:
    assert koordlet_of(a_koordlet(*args)) == found
    assert koordlet_of(a_koordlet(command=args)) == found


@pytest.mark.parametrize("pod", [{}, {"metadata": {"labels": {"koord-app": "koord-manager"}}}, {"metadata": None}])
def test_other_pods_are_no_koordlets(pod: dict[str, Any]) -> None:
    assert koordlet_of(pod) is None


@pytest.mark.parametrize("pod", [{"metadata": {"labels": "x"}}])
def test_labels_that_are_none_make_no_koordlet(pod: dict[str, Any]) -> None:
    assert koordlet_of(pod) is None
