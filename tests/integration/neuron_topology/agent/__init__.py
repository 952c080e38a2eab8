"""The Neuron agent over sockets, files and programs."""
