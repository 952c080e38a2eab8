"""What is promised of every kubelet. Each case runs against the emulated one in ``make test``.

Against a real one: ``with Trial(kubelet, case.name) as trial: case.run(trial)`` for each of ``CASES``, with ``kubelet``
a ``real.RealKubelet`` made from the node of ``tests/cluster``.
"""

from tests.contract.kubelet import admission_cases, node_cases, restart_cases, starting_cases
from tests.contract.kubelet.register import CASES, Case

__all__ = ["CASES", "Case", "admission_cases", "node_cases", "restart_cases", "starting_cases"]
