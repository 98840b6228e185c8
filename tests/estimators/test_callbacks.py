"""Callbacks of scikit-learn 1.9 hear of fits and searches, and may stop them."""

from __future__ import annotations

import pytest
from sklearn.model_selection import GridSearchCV

from lrml import CPLST, LRML, LRMLCV, MLFro, TextTagger

pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 has no callbacks")


class Heard:
    """Notes what it is told, and stops a fit after some tasks."""

    max_propagation_depth = None

    def __init__(self, stop_after=None):
        self.begun, self.ended, self.fitted, self.stop_after = [], [], [], stop_after

    def setup(self, estimator, context):
        self.begun.append("setup")

    def teardown(self, estimator, context):
        self.ended.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.ended.append(context.task_name)
        if fitted_estimator is not None:
            self.fitted.append(fitted_estimator.score(X, y))
        return len(self.ended) == self.stop_after


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 4, seed=3)


@pytest.mark.parametrize(
    "model", [LRML(1, 2.0), LRML(loss="logistic", threshold="auto"), MLFro(), CPLST(2)], ids=repr
)
def test_the_tasks_of_a_fit_are_its_iterations(data, model):
    heard = Heard()
    model = model.set_callbacks(heard).fit(*data)
    steps = model.history_["phase"].tolist()
    assert heard.begun == ["setup", "fit", *steps]
    assert heard.ended == [*steps, "fit", "teardown"]
    assert heard.fitted == [model.score(*data)]


def test_the_tasks_of_a_search_are_models_on_splits(data):
    heard = Heard()
    model = LRMLCV(LRML(threshold="auto"), thetas=[0], alphas=[0.1, 1.0], ridges=[1.0], cv=3, random_state=0)
    model.set_callbacks(heard).fit(*data)
    assert heard.ended[-2:] == ["fit", "teardown"]
    assert len(heard.ended) - 2 == heard.ended.count("model on a split") >= 6
    assert heard.fitted == [model.score(*data)]


def test_a_callback_stops_a_fit_as_our_own_does(data):
    stopped = LRML(1, 2.0, tol=1e-12).set_callbacks(Heard(stop_after=4)).fit(*data)
    assert (len(stopped.history_["phase"]), stopped.converged_) == (4, False)
    both = (
        LRML(1, 2.0, tol=1e-12, callback=lambda info: info.iteration == 2).set_callbacks(Heard()).fit(*data)
    )
    assert len(both.history_["phase"]) == 3


def test_callbacks_are_torn_down_after_an_error_and_reach_models_inside(data):
    heard = Heard()
    with pytest.raises(ValueError, match="theta"):
        LRML(99).set_callbacks(heard).fit(*data)
    assert heard.ended == ["teardown"]
    heard = Heard()
    search = GridSearchCV(LRML(1), {"alpha": [1.0, 2.0]}, cv=2).set_callbacks(heard).fit(*data)
    assert heard.ended.count("teardown") == 1
    assert heard.ended.count("alternating") >= 5
    assert not hasattr(search.best_estimator_, "_skl_callbacks")
    tagger = TextTagger(MLFro().set_callbacks(heard := Heard()))
    tagger.fit(["a fast chess engine", "a photo viewer"] * 3, [["game"], ["image"]] * 3)
    assert heard.ended[-1] == "teardown"
