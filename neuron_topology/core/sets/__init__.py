"""Which devices go together: families of sets, a table over everything that can be free, and the order in a set."""
