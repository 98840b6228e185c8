"""How good scores are, and how sure one can be: intervals, labels one by one, reliability, comparisons.

`assess` computes every metric of `lrml.metrics` with a bootstrap interval. A resample draws n of the n rows
with replacement, so row i counts wᵢ times, with w multinomial. Means over rows become Σ wᵢ vᵢ / Σ wᵢ, and the
counts of F1 become weighted sums of rows. The interval lies between two percentiles of the metric over the
resamples, less the bias that the resamples show: with θ the value and θ* that of a resample, between those of
θ + θ* − mean(θ*). Without this, macro-F1 of rare labels would lie above its own interval, since a label that
occurs once is missing from a third of the resamples, and counts as 0 there. The interval is for the mean of
the metric over other choices of as many rows; it does not cover the choice of the training rows.

`compare` does the same for several models on the same rows, with the same resamples for all, so the intervals
of their differences are paired.

References
----------
- B. Efron, R. Tibshirani. "An Introduction to the Bootstrap". Chapman & Hall, 1993: percentile intervals, and
  chapter 10 on the bias.
- S. Holm. "A Simple Sequentially Rejective Multiple Test Procedure". Scandinavian Journal of Statistics 6,
  65-70, 1979.
"""

from lrml.evaluation._assessment import Assessment, Interval, assess
from lrml.evaluation._cells import Reliability
from lrml.evaluation._comparison import Comparison, compare

__all__ = ["Assessment", "Comparison", "Interval", "Reliability", "assess", "compare"]
