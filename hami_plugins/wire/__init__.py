"""Text to values and back, one module per format, encode beside decode. No IO."""
