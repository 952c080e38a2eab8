"""Allocations of Volcano's vGPU pods from one cache: Volcano's extender, the webhooks, and what belongs to them."""
