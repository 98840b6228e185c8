"""A fitted model behind HTTP: tags for texts or feature rows as JSON, and one page for people."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
