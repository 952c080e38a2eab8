"""Which running pods have to leave so that a pod or a gang fits: pure, and proven by the one decision function."""
