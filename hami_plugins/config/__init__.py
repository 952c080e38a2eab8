"""Settings: YAML text and environment in, frozen values or a refusal out."""
