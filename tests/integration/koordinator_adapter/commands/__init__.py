"""Commands of ``hami-plugins koordinator`` on an embedded cluster."""
