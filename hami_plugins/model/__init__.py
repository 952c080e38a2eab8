"""Frozen values: what the decisions are about. Imports nothing but the standard library."""
