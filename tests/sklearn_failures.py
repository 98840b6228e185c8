"""scikit-learn's checks that cannot apply to these estimators, as docs/sklearn.md declares them."""

CUT = "check_classifier_multioutput"
NO_STEP = "check_non_transformer_estimators_n_iter"
REASONS = {
    CUT: "scores of the squared loss estimate 0/1 and are cut at 0.5",
    NO_STEP: "a closed form takes no iteration",
}


def unexpected(check_estimator, estimator, *expected):
    """Return the declared failures that do not happen; others raise."""
    declared = {name: REASONS[name] for name in expected}
    results = check_estimator(estimator, on_skip=None, expected_failed_checks=declared)
    return set(expected) ^ {one["check_name"] for one in results if one["status"] == "xfail"}
