"""For clusters scheduled by Koordinator: pods in HAMi's or Volcano's words become pods in Koordinator's, and back."""
