"""The node agent for Neuron: everything that does IO on a node."""
