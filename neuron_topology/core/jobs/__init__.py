"""Volcano Jobs that ask for Neuron devices, made so that Volcano sees what they need and where it is."""
