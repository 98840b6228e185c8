"""Matrix completion under the tail sum of the singular values, or the trace norm."""

from lrml.completion._complete import complete
from lrml.completion._imputer import LowRankImputer
from lrml.completion._result import Completion
from lrml.completion._selection import AlphaSelection, select_alpha

__all__ = ["AlphaSelection", "Completion", "LowRankImputer", "complete", "select_alpha"]
