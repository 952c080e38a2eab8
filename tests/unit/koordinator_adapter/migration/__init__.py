"""Tests of ``koordinator doctor``."""
