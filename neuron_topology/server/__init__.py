"""Neuron devices from one cache on any scheduler: extenders, the webhooks on pods and Bindings, gangs, repairs."""
