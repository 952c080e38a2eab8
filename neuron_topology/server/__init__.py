"""Neuron devices from one ledger on any scheduler: extenders, the webhooks on pods and Bindings, gangs, repairs."""
