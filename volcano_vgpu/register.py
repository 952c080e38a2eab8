"""What a node says about its cards, in Volcano's words."""
