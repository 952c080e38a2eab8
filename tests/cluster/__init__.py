"""Real Kubernetes, containerd and Volcano as peers, built from their published modules and run by fixtures."""
