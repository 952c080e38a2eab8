"""Instance types, and what machines say of themselves."""
