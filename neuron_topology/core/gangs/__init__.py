"""Jobs whose pods start together: which devices they get, and whether there is room for all."""
