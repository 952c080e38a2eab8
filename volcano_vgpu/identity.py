"""Which container a call of the kubelet is for."""
