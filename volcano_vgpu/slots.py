"""The names under which the kubelet hands out cards."""
