"""What a way of choosing devices is worth: jobs on a cluster of equal nodes, policy by policy, in a loss system."""
