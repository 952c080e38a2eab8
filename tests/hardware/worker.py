"""A program that uses the first card, told what to do by JSON lines: ``["allocate", MIB]`` and the like.

It speaks to the CUDA driver alone and imports nothing of ours, so that HAMi-core meets what a user's program does.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

MIB = 1 << 20

SPIN = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, 0;
    mov.u32 %r3, 1;
LOOP:
    mad.lo.u32 %r3, %r3, 1664525, 1013904223;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    st.global.u32 [%rd2], %r3;
    ret;
}
\0"""


class Gpu:
    """The first card through the driver's C interface. Each method answers with a code of CUDA first, 0 for success."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._blocks: list[ctypes.c_uint64] = []
        self._kernel: ctypes.c_void_p | None = None

    def begin(self) -> list[int]:
        """A context."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        for code in (
            self._cuda.cuInit(0),
            self._cuda.cuDeviceGet(ctypes.byref(device), 0),
            self._cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device),
        ):
            if code:
                return [code]
        return [0]

    def allocate(self, mib: int) -> list[int]:
        """Memory in one piece."""
        block = ctypes.c_uint64()
        code = self._cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib * MIB))
        if not code:
            self._blocks.append(block)
        return [code]

    def free(self) -> list[int]:
        """The last piece."""
        return [self._cuda.cuMemFree_v2(self._blocks.pop())]

    def info(self) -> list[int]:
        """Free and total memory, MiB."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return [code, free.value // MIB, total.value // MIB]

    def burn(self, seconds: int) -> list[int]:
        """How many kernels end in so many seconds, each on the whole card."""
        if self._kernel is None and (code := self._load()):
            return [code, 0]
        out, rounds = self._blocks[0], ctypes.c_uint32(200_000)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(rounds))
        until, count = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            code = self._cuda.cuLaunchKernel(self._kernel, 512, 1, 1, 256, 1, 1, 0, None, arguments, None)
            code = code or self._cuda.cuCtxSynchronize()
            if code:
                return [code, count]
            count += 1
        return [0, count]

    def _load(self) -> int:
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        code = int(self._cuda.cuModuleLoadData(ctypes.byref(module), SPIN))
        code = code or int(self._cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
        self._kernel = kernel
        return code


def main() -> None:
    """Does what the lines say, one after the other."""
    gpu = Gpu()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        method: Any = getattr(gpu, name)
        sys.stdout.write(json.dumps(method(*arguments)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
