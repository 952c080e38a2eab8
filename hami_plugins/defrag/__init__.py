"""Which running pods have to move so that devices are of use again: pure, proven by the one decision function."""
