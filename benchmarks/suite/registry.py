"""All systems, in the order of running and of the tables, and the choice among them.

The unit and ours come first, the slowest last: a run that is cut short still says something.
"""

from __future__ import annotations

from collections.abc import Iterable

import ours
import peers
from systems import LeaveOneOutRidge, OneVsRestLogistic, OneVsRestSVC, System, TunedRidge, UnitRidge

_ALL: tuple[type[System], ...] = (
    UnitRidge,
    ours.Path,
    ours.SameGridAsPath,
    ours.LrmlCV,
    ours.LogisticLrmlCV,
    ours.TraceCV,
    ours.FroCV,
    ours.CplstCV,
    ours.LemlCV,
    ours.Algorithm1,
    TunedRidge,
    LeaveOneOutRidge,
    peers.LibMultiLabel,
    peers.NapkinXC,
    peers.Omikuji,
    peers.Himalaya,
    OneVsRestSVC,
    OneVsRestLogistic,
)
SYSTEMS = {system.name: system for system in _ALL}


def selected(names: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the names that contain one of the texts (in any case), and always the first name, the unit."""
    names, wanted = list(names), [text.lower() for text in texts]
    return [name for i, name in enumerate(names) if i == 0 or any(text in name.lower() for text in wanted)]
