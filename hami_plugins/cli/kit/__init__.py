"""What the commands of this package and of the products share: options, inputs, output, exit codes."""
