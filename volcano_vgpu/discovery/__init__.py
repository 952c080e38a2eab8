"""Finds the cards of a node: through NVIDIA's driver, or in a file where there is none."""
