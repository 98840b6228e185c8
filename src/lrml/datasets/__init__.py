"""Multi-label datasets and texts with tags: sources in any format, writers, downloads, made-up data.

Each module imports what it needs, so listing datasets needs neither NumPy nor scikit-learn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
