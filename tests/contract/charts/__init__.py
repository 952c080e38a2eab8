"""Settings and generated objects, and what the charts make of them."""
