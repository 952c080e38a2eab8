"""What is in the images, held against what their processes import."""
