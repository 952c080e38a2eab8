"""Which slots the kubelet is asked to hand out."""
