"""First process of a private machine: lays the machine's own folders over the system's, then waits for its end.

Run as ``python holder.py ROOT`` under ``unshare --mount --pid --fork --mount-proc``. When it ends, however that
happens, the kernel kills every other process of the machine and drops its mounts. It ends with its input, a pipe that
only the test run holds open, so the machine cannot outlive the test run either.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

# What the kubelet would otherwise write to the settings of the whole computer's kernel; it leaves alone what is as it
# wants it.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def lay(source: Path, target: str) -> None:
    subprocess.run(["mount", "--bind", str(source), target], check=True)  # noqa: S607


def furnish(root: Path) -> None:
    for name in ("run", "var/lib", "var/log"):
        (root / name).mkdir(parents=True)
        lay(root / name, f"/{name}")
    (root / "run/secrets/kubernetes.io/serviceaccount").mkdir(parents=True)
    lay(root / "hosts", "/etc/hosts")
    for name, value in KERNEL.items():
        setting = root / "kernel" / name
        setting.parent.mkdir(parents=True, exist_ok=True)
        setting.write_text(value + "\n")
        lay(setting, f"/proc/sys/{name}")


def bury(*_: object) -> None:
    """Orphans of the machine come to its first process, which has to take note of their end."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    furnish(Path(sys.argv[1]))
    signal.signal(signal.SIGCHLD, bury)
    os.write(1, b"ready\n")
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main()
