"""The node agent for clusters scheduled by Volcano: finds cards, registers them, hands out exactly what was granted."""
