"""Model files: `lrml.save` and `lrml.load`.

One file holds one fitted estimator: numbers, names, settings and facts about its training, and nothing that
could run. It is a safetensors file (suffix ``.lrml``) with one JSON document in its header and a SHA-256
checksum of the whole; ``docs/models.md`` describes it, so that others can read it.

Why this and not another format:

- *pickle, joblib*: loading one runs whatever its author wanted.
- *skops*: rebuilds Python objects by the names of their classes, so a file depends on how our modules are
  arranged, and a reader must judge a list of types. `SKOPS_TRUSTED_TYPES` is that list, for who wants it.
- *npz*: a zip archive, which can unpack to far more than its size, and in which texts are pickled or padded.
- *ONNX*: for other runtimes (`lrml export`); it has no place for parameters, searches or training facts, and
  needs a library of 50 MB.
- *safetensors*: a length, a JSON header and plain numbers. Sizes are known before anything is allocated, the
  numbers need no conversion, and there is a reader in every language.
"""

from __future__ import annotations

from lrml.storage._container import ModelFileError
from lrml.storage._files import load, read_header, save
from lrml.storage._trust import SKOPS_TRUSTED_TYPES

__all__ = ["SKOPS_TRUSTED_TYPES", "ModelFileError", "load", "read_header", "save"]


def __dir__() -> list[str]:
    return __all__
