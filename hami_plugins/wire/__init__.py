"""Text to values and back, one module per format, encoder and decoder together. No IO."""
