"""Splits of multi-label data that keep the proportion of every label."""

from lrml.model_selection._splitters import MultilabelStratifiedKFold, iterative_train_test_split

__all__ = ["MultilabelStratifiedKFold", "iterative_train_test_split"]
