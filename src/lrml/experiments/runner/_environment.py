"""What a result was made with: versions and the kind of machine; nothing that names a person or a time."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

_PACKAGES = "lrml", "numpy", "scipy", "scikit-learn"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on; none of them is imported."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def machine() -> dict[str, str | int | float | None]:
    """Return system, processor architecture, cores that may be used and memory in GiB (None if not known)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gib": _memory(),
    }


def _memory() -> float | None:
    try:
        pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not this system, or not this name
        return None
    return round(pages * page_size / 2**30, 1) if min(pages, page_size) > 0 else None
