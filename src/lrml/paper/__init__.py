"""Reproduction of the paper: specifications as data, cells as files, and what comes of them.

The command line's help needs the plan alone, which imports neither NumPy nor pandas.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
