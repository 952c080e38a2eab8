"""What the machines are: instance types as data, how their devices are wired, and what a machine says of itself."""
