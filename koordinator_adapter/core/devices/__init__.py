"""Device objects for nodes whose cards koordlet does not report."""
