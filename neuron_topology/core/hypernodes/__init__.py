"""Volcano's HyperNodes: which machines are near to each other, out of the labels of the nodes."""
