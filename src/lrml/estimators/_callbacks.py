"""Callbacks of scikit-learn, which knows them from version 1.9 on: what a fit tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from lrml.estimators._spec import Parameters

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn 1.8: without set_callbacks, nothing is ever told
    CallbackSupportMixin = type("CallbackSupportMixin", (), {})
    _with_callbacks = None

__all__ = ["CALLED", "CallbackSupportMixin", "told_of_fit", "with_callbacks"]

CALLED = {"_skl_callbacks", "_parent_callback_ctx"}
"""An estimator has one of these attributes if it, or a search around it, has callbacks."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def with_callbacks(method: _Method) -> _Method:
    """Return a method after which all callbacks are torn down, also if it fails."""
    found: _Method = method if _with_callbacks is None else _with_callbacks(method)
    return found


@contextmanager
def told_of_fit(model: Any, params: Parameters, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    """Tell the callbacks of a model, or of a search around it, of a fit while it runs.

    Tasks of the fit are the iterations, which a callback may end, and in a search the models on splits. A
    fitted model to score is there when all is done.
    """
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    data = {"estimator": model, "X": X, "y": y, "metadata": metadata}
    whole, lock, given = model._init_callback_context(max_subtasks=None), Lock(), params.callback
    whole.call_on_fit_task_begin(**data)

    def tell(info: Any) -> bool:
        with lock:  # a search judges in threads
            task = whole.subcontext(task_name=info if isinstance(info, str) else info.phase)
            task.call_on_fit_task_begin(**data)
            stop = task.call_on_fit_task_end(**data)
        return bool(stop or (given is not None and given(info)))

    params.callback = tell
    yield
    whole.call_on_fit_task_end(**data, reconstruction_attributes={})
