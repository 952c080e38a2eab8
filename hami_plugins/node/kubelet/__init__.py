"""The kubelet as seen from its node: its gRPC protocols, its sockets, its record of allocations.

The stubs are generated (``make stubs``) from the two ``.proto`` files in this folder.
"""
