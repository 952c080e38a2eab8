"""Units and identities as types, so that a mebibyte is never taken for a percentage."""

from typing import NewType

MiB = NewType("MiB", int)
"""Device memory in mebibytes (2**20 bytes)."""

MEBIBYTE = 1 << 20
"""Bytes of a MiB."""

CoreShare = NewType("CoreShare", int)
"""Compute in the vendor's own unit; ``Device.cores`` is the whole device (100 % on most, 16 on Moore Threads)."""

DeviceId = NewType("DeviceId", str)
"""What the vendor calls one physical device: a GPU UUID, a VDie id, or ``<node>-AWSNeuron-3``."""

NodeName = NewType("NodeName", str)

PodUid = NewType("PodUid", str)

VendorName = NewType("VendorName", str)
"""HAMi's "common word" of a backend, for example ``NVIDIA``, ``MLU`` or ``Ascend910B3``."""

INT32_MAX = 2**31 - 1
"""The largest amount the Kubernetes device protocols can carry (they book in int32)."""
