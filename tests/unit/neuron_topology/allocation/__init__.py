"""Sets of linked devices and the choice among them."""
