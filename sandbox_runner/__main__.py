"""`python -m sandbox_runner`."""

import sys

from sandbox_runner.cli import main

sys.exit(main())
