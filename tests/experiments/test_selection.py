"""The choice of hyperparameters: what it sees, and what it must not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from lrml.experiments import reproduce
from lrml.experiments._selection import Holdout, select
from lrml.metrics import average_precision


def choices(result):
    return [(row.protocol, row.label, row.alpha, row.ridge, row.validation_score) for row in result.rows]


def test_the_test_set_does_not_take_part_in_the_choice(yeast, small_spec, small_result):
    X, Y = yeast.X.copy(), yeast.Y.copy()
    X[yeast.n_train :] = np.random.default_rng(0).normal(size=X[yeast.n_train :].shape)
    Y[yeast.n_train :] = 1 - Y[yeast.n_train :]
    corrupted = reproduce(replace(yeast, X=X, Y=Y), small_spec, seed=1)
    assert choices(corrupted) == choices(small_result)
    assert corrupted.rows[0].evaluation["top1"] != small_result.rows[0].evaluation["top1"]


def test_the_seed_chooses_the_held_out_rows(yeast, small_spec, small_result):
    other = reproduce(yeast, small_spec, seed=2)
    assert [row.validation_score for row in other.rows] != [row.validation_score for row in small_result.rows]


def test_holdout_divides_the_training_rows():
    X = np.arange(50.0)[:, None]
    holdout = Holdout.from_train(X, np.eye(50), share=0.2, seed=3)
    assert holdout.X_validation.shape == (10, 1)
    together = np.concatenate([holdout.X_fit, holdout.X_validation])
    assert sorted(together.ravel()) == sorted(X.ravel())
    np.testing.assert_array_equal(holdout.Y_fit.argmax(axis=1), holdout.X_fit.ravel())


def test_the_best_candidate_wins(yeast):
    holdout = Holdout.from_train(*yeast.train, share=0.2, seed=0)
    candidates = [Ridge(alpha=alpha) for alpha in (1e-3, 1.0, 1e3)]
    found = select(candidates, holdout)
    scores = [
        average_precision(
            holdout.Y_validation, c.fit(holdout.X_fit, holdout.Y_fit).predict(holdout.X_validation)
        )
        for c in candidates
    ]
    assert found.score == max(scores)
    assert found.model is candidates[int(np.argmax(scores))]


def test_of_equals_the_first_wins(yeast):
    holdout = Holdout.from_train(*yeast.train, share=0.2, seed=0)
    candidates = [Ridge(alpha=1.0), Ridge(alpha=1.0)]
    assert select(candidates, holdout).model is candidates[0]


def test_nothing_to_choose_from_is_an_error(yeast):
    with pytest.raises(ValueError, match="at least one model, got none"):
        select([], Holdout.from_train(*yeast.train, share=0.2, seed=0))
