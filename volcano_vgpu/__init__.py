"""The node agent for clusters scheduled by Volcano: finds cards, registers them, hands out what was allocated."""
