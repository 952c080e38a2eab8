"""Grants of Volcano's vGPU pods from one ledger: Volcano's extender, the webhooks, and what belongs to them."""
