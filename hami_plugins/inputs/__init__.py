"""What people hand over: listings, manifests, workloads, fleets, snapshots and their redaction."""
