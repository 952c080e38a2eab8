"""What the commands print, word for word: files that a change of any of them has to touch.

``python -m tests.golden.output`` writes them anew.
"""
