"""Matrix completion under the tail sum of the singular values, or the trace norm."""

from lrml.completion._complete import AlphaSelection, Completion, complete, select_alpha
from lrml.completion._imputer import LowRankImputer

__all__ = ["AlphaSelection", "Completion", "LowRankImputer", "complete", "select_alpha"]
