"""What is wrong with a block is told with its place, and nothing before it is lost."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lrml.blocks import BlockError, Checkpoint, Door, LocalBlocks, as_source, statistics_of
from lrml.core.moments import Statistics
from lrml.datasets import open_source

BAD = [
    *(("X", np.nan, "NaN"), ("X", -np.inf, "infinity")),
    *(("Y", np.inf, "inf"), ("Y", 2.0, "2"), ("Y", 0.5, r"0\.5"), ("Y", -1.0, "-1")),
]
FORMS = [np.asarray, sp.csr_array, sp.csc_array, sp.dok_array, pd.DataFrame]


def numbers(n=12, d=4, n_labels=3):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), (rng.random((n, n_labels)) < 0.5).astype(float)


def cut(X, Y, *edges):
    return list(zip(np.split(X, edges), np.split(Y, edges), strict=True))


@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(st.integers(0, 12), max_size=3).map(sorted),
    row=st.integers(0, 11),
    column=st.integers(0, 2),
    bad=st.sampled_from(BAD),
    form=st.sampled_from(FORMS),
)
def test_a_bad_number_anywhere_is_named_by_block_and_row(edges, row, column, bad, form):
    X, Y = numbers()
    name, value, shown = bad
    (X if name == "X" else Y)[row, column] = value
    block = int(np.searchsorted(edges, row, side="right"))
    with pytest.raises(BlockError, match=rf"{name}.*{shown}") as caught:
        LocalBlocks([(form(x), form(y)) for x, y in cut(X, Y, *edges)]).sum(statistics_of)
    assert (caught.value.block, caught.value.row) == (block, row)
    start = 0 if block == 0 else edges[block - 1]
    assert (caught.value.sums is None) == (start == 0)
    if start:
        assert_array_equal(caught.value.sums.n_rows, start)


@pytest.mark.parametrize(
    "other",
    [
        lambda X, Y: (X[:, :3], Y),
        lambda X, Y: (X, Y[:, :2]),
        lambda X, Y: (X, Y[:-1]),
        lambda X, Y: (X, Y, np.ones(len(X) + 1)),
        lambda X, Y: (np.full(X.shape, "word"), Y),
        lambda X, Y: (pd.DataFrame(X, columns=list("abdc")), Y),
        lambda X, Y: (X, pd.DataFrame(Y, columns=list("zyx"))),
        lambda X, Y: X,
        lambda X, Y: None,
    ],
)
def test_what_is_no_fault_of_a_row_is_named_by_block(other):
    X, Y = numbers()
    first = pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(Y, columns=list("xyz"))
    with pytest.raises(BlockError, match=r"^block 1 \(from row 12\)") as caught:
        as_source([first, other(X, Y)]).sum(statistics_of)
    assert (caught.value.block, caught.value.row) == (1, None)
    assert isinstance(caught.value.sums, Statistics)


@pytest.mark.parametrize("form", FORMS[:3])
def test_a_block_may_lack_what_all_the_rows_must_have(form):
    X, Y = numbers()
    door = Door()
    block, columns = door.check((form(X), form(np.full(Y.shape, np.nan)), np.zeros(12)), 3, 7)
    assert (block.index, block.first_row, len(block)) == (3, 7, 12)
    assert not block.mask.known().any()
    assert columns.sparse_features == columns.sparse_labels == (form is not np.asarray)
    assert len(door.check((form(X[:0]), form(Y[:0])), 0, 0)[0]) == 0


@pytest.mark.parametrize("y", [["a", "b"], ["a", "a"], np.array(["b", np.nan], dtype=object)])
def test_a_block_of_a_flat_y_has_the_classes_that_are_told(y):
    X = np.eye(2)
    block, columns = Door(classes=np.array(["a", "b"], dtype=object)).check((X, y), 0, 0)
    assert columns.flat
    assert list(columns.label_names) == ["a", "b"]
    known = [value == value for value in y]  # noqa: PLR0124  # NaN does not equal itself
    assert_array_equal(block.Y[known, 0], [float(value == "b") for value in np.asarray(y)[known]])
    assert (block.mask is None) == all(known)


def test_sums_of_files_that_are_all_in_a_checkpoint_can_be_taken_again(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,0\n2,1\n3,1\n")
    source = LocalBlocks(open_source(path, rows=2, labels=["y"]))
    whole = source.sum(statistics_of, checkpoint=Checkpoint(tmp_path / "sums"))
    other = LocalBlocks(source.blocks)
    for checkpoint in (Checkpoint(tmp_path / "sums"), None, None):
        assert other.sum(statistics_of, checkpoint=checkpoint).xx == whole.xx
