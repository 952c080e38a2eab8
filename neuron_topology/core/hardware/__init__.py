"""Machines: instance types as data, the wiring of their devices, and a machine's own report."""
