"""Reproduction of the paper: specifications as data, cells as records, a summary as plain data.

Worker processes and the command line's help need only a part, so names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
