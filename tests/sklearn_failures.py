"""scikit-learn's checks that cannot apply to a multi-label classifier with 0/1 columns."""

ONE_TWO = "feeds the labels {1, 2}; every column of a label matrix here is 0/1"
ONE_TWO_TRACE = "Y must hold only 0 and 1, got 2"
FLAT = "passes a 1-D target; a label matrix has one column per label, and one column is not flattened"
FLAT_TRACE = "Y must be 2-D (rows × labels), got shape"
EXACT = ("wants at least one iteration; the solution here is exact", "n_iter_")

# Check → (why it cannot apply to a multi-label classifier, what its traceback shows).
EXPECTED_FAILURES = {
    "check_estimators_dtypes": (ONE_TWO, ONE_TWO_TRACE),
    "check_sample_weights_pandas_series": (ONE_TWO, ONE_TWO_TRACE),
    "check_sample_weights_not_an_array": (ONE_TWO, ONE_TWO_TRACE),
    "check_sample_weights_shape": (ONE_TWO, ONE_TWO_TRACE),
    "check_sample_weights_not_overwritten": (ONE_TWO, ONE_TWO_TRACE),
    "check_classifier_data_not_an_array": (ONE_TWO, ONE_TWO_TRACE),
    "check_fit2d_1feature": ("feeds the labels {0, 1, 2}; every column here is 0/1", ONE_TWO_TRACE),
    "check_classifiers_one_label": (FLAT, FLAT_TRACE),
    "check_classifiers_one_label_sample_weights": (FLAT, FLAT_TRACE),
    "check_classifiers_classes": (FLAT, FLAT_TRACE),
    "check_classifiers_regression_target": (FLAT, FLAT_TRACE),
    "check_classifier_not_supporting_multiclass": (FLAT, FLAT_TRACE),
    "check_classifiers_train": (
        "wants 1-D predictions for a single label; predictions here are n × L",
        "assert y_pred.shape == (n_samples,)",
    ),
    "check_classifier_multioutput": (
        "wants predict == (decision_function > 0); scores here estimate 0/1 and are cut at 0.5",
        "assert_array_equal(dec_",
    ),
}
