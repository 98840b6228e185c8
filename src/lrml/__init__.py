"""Low-rank multi-label learning that penalises only the tail of the spectrum.

The names stand in ``__init__.pyi`` and are imported on first use: scikit-learn takes a second to import, and
the version or a data file should not wait for it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
