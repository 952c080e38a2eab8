"""Whether kubelet and runtime pass CDI names on."""

from __future__ import annotations

import pytest

from volcano_vgpu.core.runtime import cdi_support


def node(kubelet: str, runtime: str) -> dict[str, object]:
    return {"status": {"nodeInfo": {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}}}


@pytest.mark.parametrize(
    ("kubelet", "runtime", "works", "word"),
    [
        ("v1.34.4", "containerd://2.1.4", True, "containerd://2.1.4"),
        ("v1.29.0", "containerd://2.0.0-rc.1", True, "v1.29.0"),
        ("v1.31.2+k3s1", "cri-o://1.23.5", True, "cri-o"),
        ("v1.28.15", "containerd://2.1.4", False, "kubelet v1.28.15"),
        ("v1.34.4", "containerd://1.7.27", False, "enable_cdi"),
        ("v1.34.4", "cri-o://1.22.0", False, "enable_cdi"),
        ("v1.34.4", "docker://27.0.3", False, "docker://27.0.3"),
        ("", "containerd://2.1.4", False, "of unknown version"),
        ("v1.34.4", "", False, "without a name"),
        ("v1.34.4", "containerd://", False, "enable_cdi"),
    ],
)
def test_cdi_works_from_the_versions_on_that_have_it_switched_on(
    kubelet: str, runtime: str, works: bool, word: str
) -> None:
    found = cdi_support(node(kubelet, runtime))
    assert found.works is works
    assert word in found.why


@pytest.mark.parametrize("raw", [{}, {"status": None}, {"status": {"nodeInfo": None}}])
def test_a_node_that_says_nothing_has_no_cdi(raw: dict[str, object]) -> None:
    assert not cdi_support(raw).works
