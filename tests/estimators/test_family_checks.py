"""scikit-learn's own checks for the whole family."""

import traceback

import pytest
from sklearn.utils.estimator_checks import check_estimator

import sklearn_failures
from lrml import CPLST, LEML, LRML, PLST, MLFro, MLTrace
from lrml.core.losses import LOSSES

DOUBLE = {
    "tol": 5e-6,
    "max_iter": 5000,
}  # scores in double precision: weights must be repetitions to seven digits


def loss_of(model):
    return LOSSES[getattr(model, "loss", "squared")]


_CUT = "check_classifier_multioutput"


def expected_failures(estimator):
    """Check → (why it cannot apply, what its traceback shows)."""
    if getattr(estimator, "targets", "binary") == "real":
        expected = {}
    else:
        expected = dict(sklearn_failures.EXPECTED_FAILURES)
    if loss_of(estimator).threshold == 0:
        del expected[_CUT]
    if type(estimator) in (MLFro, LEML) and loss_of(estimator).name == "squared":
        expected["check_non_transformer_estimators_n_iter"] = sklearn_failures.EXACT
    return expected


CHECKED = [
    MLTrace(),
    MLFro(),
    CPLST(),
    PLST(),
    LEML(),
    MLTrace(targets="real"),
    MLFro(targets="real"),
    MLFro(1.0, kernel="rbf"),
    MLTrace(kernel="rbf", ridge=0.1, tol=1e-12),
    CPLST(kernel="poly"),
    # Free singular values and labels that can be separated: without a ridge probabilities would end as 1.
    LRML(loss="logistic", ridge=0.1, **DOUBLE),
    MLTrace(loss="squared_hinge", **DOUBLE),
    MLFro(loss="logistic", **DOUBLE),
]


@pytest.mark.parametrize("estimator", CHECKED, ids=repr)
def test_every_check_passes_but_those_that_cannot_apply(estimator):
    expected = expected_failures(estimator)
    found = {}
    for result in check_estimator(estimator, on_skip=None, on_fail=None):
        if result["status"] == "failed":
            found[result["check_name"]] = "".join(traceback.format_exception(result["exception"]))
    assert set(found) == set(expected)
    for check, (_, evidence) in expected.items():
        assert evidence in found[check]
