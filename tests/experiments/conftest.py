"""A small version of the experiment, quick enough to run many times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lrml.datasets import MultiLabelDataset, load_yeast
from lrml.experiments import LogGrid, Reproduction, Spec, load_spec, reproduce


@pytest.fixture(scope="session")
def yeast() -> MultiLabelDataset:
    return load_yeast()


@pytest.fixture(scope="session")
def small_spec() -> Spec:
    spec = load_spec("yeast")
    paper, tuned = spec.protocols
    return replace(
        spec,
        theta_shares=(0.2, 0.6),
        strengths=LogGrid(1.0, 100.0, 3),
        protocols=(paper, replace(tuned, ridges=(0.0, 10.0))),
        convergence=replace(spec.convergence, steps=20, tol=1e-5),
    )


@pytest.fixture(scope="session")
def small_result(yeast: MultiLabelDataset, small_spec: Spec) -> Reproduction:
    return reproduce(yeast, small_spec, seed=1)
