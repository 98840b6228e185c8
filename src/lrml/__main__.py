"""Lets ``python -m lrml`` run the command line."""

import sys

from lrml.cli import main

sys.exit(main())
