"""Constructors of estimators, which store what a class lists; and what several members list alike."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar, cast, dataclass_transform

from lrml.estimators._kernels import KernelLike
from lrml.solvers import Callback

_Kind = TypeVar("_Kind", bound=type)


@dataclass_transform(eq_default=False)
def with_constructor(kind: _Kind) -> _Kind:
    """Give an estimator the constructor that stores what its class lists, by these names and defaults.

    The signature has what the class itself lists before what it shares with others.
    """
    store: Any = dataclass(eq=False, repr=False)
    made, own = store(kind), vars(kind).get("__annotations__", ())
    signature = inspect.signature(made.__init__)
    ordered = sorted(
        signature.parameters.values(), key=lambda one: one.kind == one.KEYWORD_ONLY and one.name not in own
    )
    made.__init__.__signature__ = signature.replace(parameters=ordered)
    return cast(_Kind, made)


@with_constructor
class Iterated:
    """Parameters of members whose fits may iterate; `lrml.LRML` explains them."""

    _: KW_ONLY
    fit_intercept: bool = True
    max_iter: int | None = None
    tol: float | None = None
    warm_start: bool = False
    callback: Callback | None = None
    device: Any = None
    verbose: int = 0


@with_constructor
class Kernelised:
    """Parameters of members that may compare rows by a kernel."""

    _: KW_ONLY
    kernel: KernelLike = "linear"
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1
