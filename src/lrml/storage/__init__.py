"""Model files: `lrml.save` and `lrml.load`.

One file holds one fitted estimator: numbers, names, settings and facts about its training, and nothing that
could run. It is a safetensors file (suffix ``.lrml``) with one JSON document in its header and a SHA-256
checksum of the whole; ``docs/models.md`` describes it, so that others can read it.
"""

from __future__ import annotations

from lrml.storage._container import ModelFileError
from lrml.storage._files import load, read_header, save
from lrml.storage._state import SKOPS_TRUSTED_TYPES

__all__ = ["SKOPS_TRUSTED_TYPES", "ModelFileError", "load", "read_header", "save"]


def __dir__() -> list[str]:
    return __all__
