"""Which clusters add tolerations by the resources that pods request."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.wire import objects

NEURON = "aws.amazon.com/neuron"


def tolerated(key: str, labels: dict[str, str], info: Any) -> bool:
    node = {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"taints": [{"key": key, "value": "true", "effect": "NoSchedule"}]},
        "status": {"nodeInfo": info} if info is not None else {},
    }
    return key in objects.node_facts(node).tolerated


@pytest.mark.parametrize(
    ("labels", "info"),
    [
        ({"eks.amazonaws.com/nodegroup": "trn1"}, {"kubeletVersion": "v1.34.1"}),
        ({"alpha.eksctl.io/nodegroup-name": "trn1"}, None),
        ({"karpenter.k8s.aws/instance-family": "trn1"}, None),
        ({}, {"kubeletVersion": "v1.34.1-eks-113cf36"}),
    ],
)
def test_eks_is_known_by_its_labels_and_by_its_kubelet(labels: dict[str, str], info: Any) -> None:
    assert tolerated(NEURON, labels, info)
    assert tolerated("nvidia.com/gpu", labels, info)


@pytest.mark.parametrize(
    ("labels", "info"),
    [({"cloud.google.com/gke-accelerator": "nvidia-l4"}, None), ({}, {"kubeletVersion": "v1.33.4-gke.1036000"})],
)
def test_gke_is_known_by_its_labels_and_by_its_kubelet(labels: dict[str, str], info: Any) -> None:
    assert tolerated("nvidia.com/gpu", labels, info)


def test_a_kubelet_of_another_provider_adds_nothing() -> None:
    assert not tolerated(NEURON, {}, {"kubeletVersion": "v1.34.1"})
    assert not tolerated("nvidia.com/gpu", {}, {"kubeletVersion": "v1.34.1"})


def test_a_listing_without_versions_is_one_of_eks_where_the_taint_is_that_of_a_resource_of_aws() -> None:
    assert tolerated(NEURON, {}, None)
    assert not tolerated("nvidia.com/gpu", {}, None)


@pytest.mark.parametrize("info", ["v1.34.1-eks-1", ["-eks-"], {"kubeletVersion": None}, {"kubeletVersion": 7}])
def test_odd_information_about_a_node_is_none(info: Any) -> None:
    assert not tolerated("nvidia.com/gpu", {}, info)


def test_taints_that_name_no_extended_resource_are_never_tolerated_so() -> None:
    eks = {"eks.amazonaws.com/nodegroup": "a"}
    assert not tolerated("dedicated", eks, None)
    assert not tolerated("node.kubernetes.io/unreachable", eks, None)
    assert not tolerated("kubernetes.io/arch", eks, None)
