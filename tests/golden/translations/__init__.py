"""Manifests as guides and examples have them, and what ``koordinator translate`` makes of them."""
