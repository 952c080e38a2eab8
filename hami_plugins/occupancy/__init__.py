"""Who holds what of every device, what is free, and what no request can get. Pure."""
