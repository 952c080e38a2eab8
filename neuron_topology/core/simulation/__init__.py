"""The worth of a policy for choosing devices: jobs on a cluster of equal nodes, policy by policy, in a loss system."""
