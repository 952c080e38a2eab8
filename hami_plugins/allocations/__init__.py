"""What is allocated now: state from watches, assumptions, the answers that follow, and what an operator installs."""
