"""The node agent: everything that does IO on a node."""
