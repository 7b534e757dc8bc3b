"""``python -m ke_core`` is ``ke``."""

import sys

from ke_core.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
