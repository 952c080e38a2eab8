"""Admission of pods: translation, limits, refusals."""
