"""Decisions: pure functions of model values. No IO, no clock, no randomness."""
