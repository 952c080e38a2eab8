"""The kubelet as seen from its node: its gRPC protocols, its sockets, its record of what it gave to whom.

The stubs are generated (``make stubs``) from the two ``.proto`` files beside them.
"""
