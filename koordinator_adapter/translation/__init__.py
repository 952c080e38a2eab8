"""Pods from HAMi's or Volcano's words into Koordinator's and back, with what is lost. Pure.

Source: ``koordinator.md`` 8; ``volcano.md`` 2 and 4; ``hami-core.md`` 5.
"""
