"""Grants from one ledger, whoever makes the devices: a scheduler's extender, the webhooks, and what belongs to them."""
