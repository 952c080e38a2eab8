"""``python -m tests.cluster``: the whole cluster to look around in, until Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import sys
import time

from tests.cluster import building
from tests.cluster.building import tell
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.machine import Machine
from tests.cluster.node import Node
from tests.cluster.peers import BuildError
from tests.cluster.volcano import Volcano


def main() -> int:
    """Start everything, say how to reach it, wait for Ctrl-C or SIGTERM, end everything."""
    try:
        programs = building.programs()
    except BuildError as error:
        tell(str(error))
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = Machine(hosts=[NODE], programs=list(programs.values()))
    try:
        began = time.monotonic()
        plane = ControlPlane(machine, programs)
        tell(f"{time.monotonic() - began:5.1f} s  control plane at {plane.url}")
        Node(plane)
        tell(f"{time.monotonic() - began:5.1f} s  {NODE} is ready")
        plane.scheduler().start()
        tell(f"{time.monotonic() - began:5.1f} s  kube-scheduler")
        Volcano(plane)
        tell(f"{time.monotonic() - began:5.1f} s  Volcano")
        tell(f"\nexport KUBECONFIG={plane.admin_kubeconfig}")
        tell(f"logs: {machine.logs}")
        tell(f"a shell on the node: {shlex.join(machine.command(['env', f'PATH={machine.path_variable}', 'bash']))}")
        tell("Ctrl-C ends it")
        signal.pause()
    except KeyboardInterrupt:
        tell("ending")
    finally:
        machine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
