"""What is granted now: facts of a watch, assumptions of our own, and the answers that follow. No IO, no clock."""
