"""The embedded cluster: an API server over HTTP, a kubelet over gRPC, and fleets, with nothing to install."""
