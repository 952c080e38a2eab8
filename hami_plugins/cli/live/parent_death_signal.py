"""A script: becomes the command in its arguments, after telling the kernel to end it with the parent.

``python parent_death_signal.py PARENT PROGRAM ARGUMENT...``, PARENT being the parent's pid. A parent that is killed
outright ends no process any more. Where the kernel is not Linux the command simply runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent, *command = sys.argv[1:]
    if os.getppid() == int(parent):  # otherwise the parent died before the kernel knew
        os.execv(command[0], command)  # noqa: S606 - no shell needed
