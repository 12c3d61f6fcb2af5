"""`python -m xlvin` is the `xlvin` command."""

import sys

from xlvin.cli import main

sys.exit(main())
