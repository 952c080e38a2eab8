"""What the node agent decides: the text of its node's annotations, and who uses devices that they were not given."""
