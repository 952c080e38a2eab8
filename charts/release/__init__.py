"""What a release consists of: Python distributions, charts and images, each the same when it is made again."""


class ReleaseError(Exception):
    """Something of a release cannot be made, or is not what it should be; the text says what to do."""
