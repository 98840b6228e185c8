"""scikit-learn's checks that cannot apply to these estimators."""

EXACT = ("wants at least one iteration; the solution here is exact", "n_iter_")

# Check → (why it cannot apply to a multi-label classifier, what its traceback shows).
EXPECTED_FAILURES = {
    "check_classifier_multioutput": (
        "wants predict == (decision_function > 0) for a label matrix; scores of the squared loss estimate "
        "0/1 and are cut at 0.5",
        "assert_array_equal(dec_",
    ),
}
