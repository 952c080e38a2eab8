"""Charts and images: how the pack is installed on a cluster."""
