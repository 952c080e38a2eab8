"""Tests of the Neuron agent's decisions."""
