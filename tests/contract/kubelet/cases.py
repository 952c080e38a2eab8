"""What is promised of every kubelet. Each case runs against the emulated one in ``make test``.

Against a real one in ``make test-cluster``: ``tests/cluster/real_kubelet.py`` makes a ``KubeletUnderTest`` of it.
"""

from tests.contract.kubelet import admission_cases, node_cases, restart_cases, starting_cases
from tests.contract.kubelet.register import CASES, Case

__all__ = ["CASES", "Case", "admission_cases", "node_cases", "restart_cases", "starting_cases"]
