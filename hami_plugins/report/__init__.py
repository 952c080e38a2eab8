"""From what people write and clusters say to answers that people read. Does no IO: text in, values and text out."""
