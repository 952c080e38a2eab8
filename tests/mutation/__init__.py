"""``make mutate``: changes one rule at a time in the pure modules and reports which changes no test notices."""
