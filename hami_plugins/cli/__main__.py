"""``python -m hami_plugins.cli``."""

import sys

from hami_plugins.cli import main

sys.exit(main())
