"""HAMi-core's names: files on a node and in containers, and the variables that it reads (HAMi 2.10.0
``pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go``)."""

from typing import Final

LIBRARY: Final = "libvgpu.so"
PRELOAD: Final = "ld.so.preload"
"""The file that makes programs load the library."""

LIBRARY_IN_CONTAINER: Final = "/usr/local/vgpu/libvgpu.so"
PRELOAD_IN_CONTAINER: Final = "/etc/ld.so.preload"
LOCK_DIRECTORY: Final = "/tmp/vgpulock"  # noqa: S108 - a path of the protocol, the same in containers

MOST_CARDS: Final = 16
"""How many cards it keeps account of in a container (Koordinator 1.7.0
``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``)."""

VISIBLE_ENV: Final = "NVIDIA_VISIBLE_DEVICES"
MEMORY_ENV: Final = "CUDA_DEVICE_MEMORY_LIMIT_"
"""With the place of a card after it; so has the next one."""

CORE_ENV: Final = "CUDA_DEVICE_SM_LIMIT_"
CORE_POLICY_ENV: Final = "GPU_CORE_UTILIZATION_POLICY"
CONTROL_ENV: Final = "CUDA_DISABLE_CONTROL"
"""Switches the library off in a container."""
