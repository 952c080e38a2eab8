"""Clusters whose API server adds tolerations to pods by the resources that they request.

The admission plugin ``ExtendedResourceToleration`` is off by default in Kubernetes; EKS (since 1.19) and GKE enable it.
Nothing in the API shows it, so the provider is recognised by what its nodes carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EKS_LABELS: Final = ("eks.amazonaws.com/", "alpha.eksctl.io/", "karpenter.k8s.aws/")
_GKE_LABELS: Final = ("cloud.google.com/gke-",)
_VERSIONS: Final = ("-eks-", "-gke.")
_AWS: Final = "aws.amazon.com/"


def tolerated(key: str, labels: Mapping[str, str], kubelet: str) -> bool:
    """Whether a pod that requests the resource ``key`` tolerates a taint of that key on a node.

    ``kubelet`` is the version that the kubelet reports, empty where a listing leaves it out. A listing without it that
    taints a node with a resource of AWS is taken as one of EKS.
    """
    if not is_extended(key):
        return False
    if any(label.startswith((*_EKS_LABELS, *_GKE_LABELS)) for label in labels):
        return True
    return any(each in kubelet for each in _VERSIONS) or (not kubelet and key.startswith(_AWS))


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: it has a domain, and not one of Kubernetes' own."""
    domain, _, rest = name.partition("/")
    return bool(rest) and not domain.endswith("kubernetes.io")
