"""``lrml fit`` and ``lrml tune``: learn a model with given or with chosen parameters, and store it."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor scikit-learn

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lrml._shown import counted, did_you_mean, shown
from lrml.cli._options import (
    DATA,
    CommandError,
    Data,
    advise,
    check_output,
    command,
    one_of,
    table_of,
    tell_progress,
)

if TYPE_CHECKING:
    from lrml.datasets import Source

METHODS = {"lrml": "LRML", "ml-trace": "MLTrace", "ml-fro": "MLFro", "leml": "LEML", "cplst": "CPLST"}
"""Names of the methods on the command line, and their estimators."""

_SECTIONS = ("model", "text", "data")
# Rows of texts have unit length. Without a ridge the free singular values would fit every rare word.
_RIDGE_FOR_TEXTS = 1.0
_KEPT = "the checkpoint has the sums so far: run the same command again to go on"
_NOT_KEPT = "nothing was kept; with the squared loss, --checkpoint FILE lets the next run go on"
_PICTURES = (".png", ".svg", ".pdf", ".jpg")

# Options

_SHARED = table_of(
    f"""
    method  {"|".join(METHODS)}  The method (default: lrml).
    loss    squared|logistic|squared_hinge  Loss (default: that of the method).
    kernel  linear|rbf|poly|sigmoid|laplacian|cosine  Kernel (default: linear).
    prune   N|auto|none  lrml, ml-fro: keep the N largest weights (default: auto for texts, as few as do).
    device  NAME       Where to compute, such as cuda (needs torch or CuPy; default: here).
    config  FILE.toml  Settings: method, tables [model], [text], [data]; options come first.
    """
)
_FIT = _SHARED | table_of(
    """
    theta      N|SHARE|auto  LRML: free singular values, a count or a share (default: 0.05; with --alpha 0.2;
                             other losses 0.1).
    rank       N|SHARE  LEML, CPLST: the rank, a count or a share of the labels.
    alpha      X        Strength of the penalty (default: that of the method; lrml: on predictions).
    ridge      X        Ridge beside it (default: that of the method, or 1 for texts, squared loss).
    gamma      X        Kernels: their width (default: 1/features).
    threshold  X|auto   Score from which on a tag is assigned (default: that of the loss).
    calibrate  NAME     Make probabilities of scores: isotonic or sigmoid (default: logistic loss only).
    """
)
_TUNE = _SHARED | table_of(
    """
    thetas     LIST     LRML: values of theta to try.
    ranks      LIST     LEML, CPLST: ranks to try.
    alphas     LIST     Values of alpha to try.
    ridges     LIST     Values of the ridge to try.
    gammas     LIST     Kernels: widths to try.
    cv         N|SHARE  Folds, or the share of rows held out (default: what suits the data).
    scoring    NAME     What to judge by, such as label_ranking_average_precision or f1_micro.
    rule       NAME     best (default), one_standard_error, or smallest in bytes within one such error.
    threshold  X|auto   Score from which on a tag is assigned (default: chosen for micro-F1, for each tag of
                        texts).
    calibrate  NAME     How scores become probabilities: isotonic (default) or sigmoid.
    """
)
_OUTPUT = typer.Option("-o", "--output", metavar="MODEL", help="The model file to write, such as model.lrml.")
_HOW = {
    "output": Annotated[str, _OUTPUT],
    "seed": Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of what is drawn (default: 0).")
    ],
    **table_of("""
        force  -  Replace a file that is there already.
        quiet  -  Show no progress.
        blocks -  Read files of numbers block by block, in memory that does not grow with the rows. A block
                  has 10,000 rows, or as many as --read rows=N says.
        checkpoint FILE  With --blocks: keep the sums over the blocks so far in this file, and go on from them
                  if it is there. It stays, so that the same command with other parameters needs no reading.
        dask ADDRESS  Sum up the blocks of several files on a Dask cluster: the address of its scheduler, or
                  local for processes on this machine.
    """),
}
_PLOT = table_of(f"plot FILE Also draw the scores of all candidates as a picture ({', '.join(_PICTURES)}).")


# Commands


@command(data=DATA, given=_FIT, how=_HOW)
def fit(data: Data, given: dict[str, Any], how: dict[str, Any]) -> Any:
    """Learn a model from texts with tags, or from features with labels.

    DATA is a dataset that lrml knows, a file of numbers (ARFF, XMC, svmlight, CSV, Parquet), or a CSV, TSV,
    JSONL or Parquet file with a column of texts and one of tags. Columns of texts and tags are guessed and
    shown. Of a dataset with a split, the training rows are used. To have theta, alpha and ridge chosen, use
    lrml tune. Files of numbers that are larger than memory are read with --blocks.

    \b
    For example:
      lrml fit articles.csv -o articles.lrml
      lrml fit articles.csv --text title,body --tags topics -o articles.lrml
      lrml fit yeast --theta 3 --alpha 20 -o yeast.lrml
      lrml fit part-*.xmc --blocks --checkpoint sums.npz -o big.lrml
    """
    return _learned("fit", data, given, how)


@command(data=DATA, given=_TUNE, how={**_HOW, **_PLOT})
def tune(data: Data, given: dict[str, Any], how: dict[str, Any]) -> Any:
    """Choose theta, alpha and ridge on held-out rows, then learn the model on all rows.

    What is not given is chosen from the data. The cut from which on a tag is assigned is chosen as well, for
    the best micro-F1 on held-out rows. DATA is what lrml fit takes. With --blocks, all rows are learned from
    and held out in turn, but scores are taken on a sample of them that fits into memory.

    \b
    For example:
      lrml tune articles.csv -o articles.lrml
      lrml tune articles.csv --loss logistic --rule smallest -o small.lrml
      lrml tune yeast --kernel rbf --plot grid.png -o yeast.lrml
      lrml tune part-*.xmc --blocks --checkpoint folds.npz -o big.lrml
    """
    return _learned("tune", data, given, how)


def _learned(command: str, data: Data, given: Mapping[str, Any], how: Mapping[str, Any]) -> tuple[Any, ...]:
    """Learn and store a model; return what it is, and of a search also what it found."""
    import lrml
    from lrml._inner import facts_of, in_words

    output, force, quiet = how["output"], bool(how.get("force")), bool(how.get("quiet"))
    tell: Callable[[str], None] = (lambda line: None) if quiet else tell_progress
    recipe = Recipe.of(given)
    data = data.with_defaults(recipe.data)
    blocks, checkpoint, plot = "blocks" in how or "dask" in how, how.get("checkpoint"), how.get("plot")
    if checkpoint is not None and not blocks:
        raise ValueError("--checkpoint is for rows that are read block by block. Add --blocks.")
    check_output(plot, "--plot", force=force, other=data.paths, suffixes=_PICTURES)
    check_output(output, "MODEL", force=force, other=data.paths)
    check_output(checkpoint, "--checkpoint", force=True, other=[*data.paths, output])
    source = data.open()
    texts = source.roles.kind == "text"
    wanted: dict[str, Any] = {"search": command == "tune", "seed": how.get("seed", 0), "verbose": not quiet}
    recipe.estimator(**wanted, n_texts=0 if texts else None)  # refuses wrong parameters before long reading
    training: Any = _Stream(source, how, tell) if blocks else Training.read(source)
    estimator = recipe.estimator(**wanted, n_texts=training.n_rows if texts else None)
    for note in (training.note, *source.roles.explain()):
        tell(note)
    if texts:
        tell("making features of the texts, then learning")
    start = perf_counter()
    model = training.fit(estimator)
    summary = {
        "command": command,
        "method": recipe.method,
        "data": source.name,
        "rows": training.n_rows,
        **({"blocks": source.n_blocks} if blocks else {}),
        "seconds": round(perf_counter() - start, 3),
        "reading": source.roles.kept(),
        "files": source.files,
    }
    # Six digits are enough for scores; kernels need all.
    linear = not hasattr(getattr(model, "model_", model), "kernel_")
    lrml.save(model, output, summary=summary, dtype="float32" if linear else None)
    if plot is not None:
        _draw(getattr(model, "model_", model), plot)
    facts = facts_of(model) | {"bytes": Path(output).stat().st_size}
    lines = in_words(facts)
    if blocks and training.n_rows:
        count = source.n_blocks  # unknown where other machines have read them
        lines.append(counted(training.n_rows, "row") + (f" in {counted(count, 'block')}" if count else ""))
    lines.append(f"wrote {output}, after {summary['seconds']:.1f} s")
    return {"model": output, **summary, **facts}, *lines


def _draw(search: Any, path: str) -> None:
    from lrml._files import atomic_file
    from lrml.displays import PathDisplay

    figure, suffix = PathDisplay.from_estimator(search).figure_, Path(path).suffix.lower().lstrip(".")
    with atomic_file(path) as stream:
        figure.savefig(stream, format=suffix, dpi=200, bbox_inches="tight")
    tell_progress(f"drew {path}")


# What to fit


@dataclass(frozen=True)
class Recipe:
    """A method of the family, with the parameters that were given."""

    method: str = "lrml"
    params: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)  # of TfidfVectorizer
    data: Mapping[str, Any] = field(default_factory=dict)  # of the reader

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Recipe:
        """Return what options and a configuration file say together; options take precedence."""
        options = dict(given)
        said = _read_config(options.pop("config")) if "config" in options else {}
        method = one_of(METHODS)(options.pop("method", said.get("method", "lrml")))
        model, text, data = (said.get(name, {}) for name in _SECTIONS)
        return cls(method, model | options, text, data)

    def estimator(self, *, search: bool, n_texts: int | None, seed: int, verbose: bool) -> Any:
        """Return the estimator, or the search for its parameters, with all parameters checked.

        A default search for texts depends on how many there are; None means numbers.
        """
        import lrml
        from lrml.text import default_model, default_vectorizer
        from lrml.thresholds import Cut

        model: Any = getattr(lrml, METHODS[self.method])()
        own: dict[str, Any] = {"random_state": seed, "verbose": int(verbose)}
        place: dict[str, str] = {}  # of parameters of the estimator in a search
        if search:
            bare, name = model, f"{METHODS[self.method]}CV"
            model = getattr(lrml, name)()
            if n_texts is not None and name == "LRMLCV":
                asked = {key: self.params[key] for key in ("loss", "rule") if key in self.params}
                model = default_model(n_texts, **asked)
            if model.estimator is None:
                model.set_params(estimator=bare)
            if n_texts is not None and {"thetas", "alphas"} & set(self.params):
                model.set_params(**{key: None for key in ("thetas", "alphas") if hasattr(model, key)})
            chosen = {*model._names, "gamma"}  # by the search
            place = {key: f"estimator__{key}" for key in bare.get_params() if key not in chosen}
            cut = "auto" if n_texts is None else Cut(per_label=True)
            own |= {"estimator__threshold": cut, "estimator__calibrate": "isotonic"}
            own |= {"estimator__verbose": int(verbose)}
        elif n_texts is not None and self.params.get("loss", "squared") == "squared":
            own["ridge"] = _RIDGE_FOR_TEXTS
        place |= {key: key for key in model.get_params() if "__" not in key and key != "estimator"}
        _check_known(model, self.params, place)
        usual = {key: one for key, one in own.items() if key in model.get_params()}
        whole = self.params.get("prune") == "none"
        given = {key: None if whole and key == "prune" else one for key, one in self.params.items()}
        model.set_params(**usual | {place[key]: one for key, one in given.items()})
        model._check_params()
        if n_texts is None:
            return model
        words = default_vectorizer()
        _check_known(words, self.text, words.get_params())
        settings = {key: tuple(one) if isinstance(one, list) else one for key, one in self.text.items()}
        words.set_params(**settings)
        return lrml.TextTagger(model, vectorizer=words, prune=None if whole else "auto")


def _check_known(owner: Any, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse parameters that are not known."""
    for key in given:
        if key not in known:
            listed = [one for one in _FIT | _TUNE if one in known] or known
            raise ValueError(
                f"{type(owner).__name__} has no parameter {key!r}. {did_you_mean(key, known)}It has "
                f"{', '.join(listed)}: choose one of these, or leave it out."
            )


def _read_config(path: str) -> dict[str, Any]:
    """Return the settings of a file, of which the names at the top are checked."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(
            f"--config {path!r} cannot be read as TOML ({why}). Write lines such as method = "
            '"lrml", and tables [model], [text] and [data].'
        ) from error
    for key, setting in found.items():
        if key not in ("method", *_SECTIONS) or (key in _SECTIONS) != isinstance(setting, dict):
            raise ValueError(
                f"--config {path!r} has {key} = {shown(setting)} at the top, where only method and the "
                f"tables {', '.join(_SECTIONS)} may stand. Put parameters of the method under [model]."
            )
    return found


# Rows to learn from


class Training(NamedTuple):
    """Rows to learn from, in memory, and others to judge by, if there are any."""

    source: Source
    rows: Any  # a Dataset or a TextDataset
    test: Any

    @classmethod
    def read(cls, source: Source, held_out: float | None = None, seed: int = 0) -> Training:
        """Read rows, split as they are in the source; else a share, drawn at random, is held out if asked."""
        whole: Any = source.read()
        if not source.roles.has_labels and whole.targets is None:
            raise without_labels(source, source.name, "learn from")
        if not hasattr(whole, "texts"):
            check_complete(whole.X)
        if whole.n_train is not None:
            parts: Any = slice(0, whole.n_train), slice(whole.n_train, None)
        else:
            parts = (slice(None),) if held_out is None else split_rows(len(whole), held_out, seed)
        rows, *test = map(whole.rows, parts)
        return cls(source, rows, test[0] if test else None)

    @property
    def n_rows(self) -> int:
        """How many rows there are to learn from."""
        return len(self.rows)

    @property
    def note(self) -> str:
        """What was read."""
        rows, part = self.rows, ""
        if self.test is not None:
            part = f" (the training rows of {len(rows) + len(self.test):,d})"
        if not hasattr(rows, "texts"):
            return f"{rows.name}: {counted(len(rows), 'row')}{part}, {_sizes(self.source)}"
        empty = f", {rows.n_empty:,d} of them empty" if rows.n_empty else ""
        tags = counted(len(rows.label_names), "different tag")
        if max(Counter(chain.from_iterable(rows.tags)).values(), default=0) == 1 < len(rows):
            tags += ", each in one text only: is this the column of tags?"
        return f"{rows.name}: {counted(len(rows), 'text')}{part}{empty}, {tags}"

    def fit(self, estimator: Any) -> Any:
        """Return the fitted estimator, with the names of the columns."""
        return _named(estimator.fit(self.rows.X, self.rows.targets), self.source)


class _Stream:
    """Rows to learn from, block by block; has what `Training` has."""

    def __init__(self, source: Source, how: Mapping[str, Any], tell: Callable[[str], None]) -> None:
        self.source, self.how, self.tell = source, how, tell
        self.n_rows: int | None = None  # until a model is fitted
        if source.has_first_pass:
            tell("reads all files once, to find features and labels")
        wrong = None
        if source.roles.kind == "text":
            wrong = "has texts, whose words are weighted by all; write features to an svmlight file"
        elif source.has_split:
            wrong = "has a test set; write the rows to learn from to a file"
        elif source.columns.labels is None:
            wrong = "has no labels; say where they are, for example with --labels"
        if wrong is not None:
            what = "--blocks learns from all rows of files of numbers"
            raise ValueError(f"{what}, but {source.name!r} {wrong}.")
        self.note = f"{source.name}: {_sizes(source)}"

    def fit(self, estimator: Any) -> Any:
        """Return the estimator, fitted to all blocks, with the names of the columns."""
        with self._blocks() as blocks:
            try:
                model = estimator.fit_blocks(blocks, checkpoint=self.how.get("checkpoint"))
            except (ValueError, TypeError):
                raise
            except BaseException:  # stopped by the user, out of memory, a cluster that is lost
                advise(_KEPT if Path(self.how.get("checkpoint", "")).is_file() else _NOT_KEPT)
                raise
        sums = getattr(model, "statistics_", None)
        self.n_rows = self.source.n_rows if sums is None else sums.n_rows
        return _named(model, self.source)

    @contextmanager
    def _blocks(self) -> Iterator[Any]:
        where = self.how.get("dask")
        if where is None:
            from lrml._progress import Reading
            from lrml.blocks import LocalBlocks

            blocks = LocalBlocks(self.source)
            blocks.told = Reading(self.tell)
            yield blocks
            return
        from lrml.engines import dask as engine

        address = None if where == "local" else where
        self.tell("starting local workers" if address is None else f"connecting to {address}")
        try:
            with engine.connect(address):
                yield engine.DaskBlocks(self.source)
        except engine.ClusterError as error:
            raise CommandError(str(error)) from error


def without_labels(source: Source, name: str, purpose: str) -> ValueError:
    """Return the error for rows without labels, of which labels were expected."""
    remedy = "Say where they are, for example with --tags or --labels."
    if source.roles.format == "npy":
        remedy = "Pass a table of them after the array, such as tags.csv."
    return ValueError(f"{name!r} has no tags or labels to {purpose}. {remedy}")


def check_complete(X: Any) -> None:
    """Refuse features with missing values, which no linear model can use."""
    import numpy as np

    missing = int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum())
    if missing:
        raise ValueError(
            f"the features have {missing:,d} missing values. Fill them in, for example with "
            "lrml.completion.LowRankImputer, or leave out their columns with --ignore."
        )


def split_rows(n_rows: int, share: float, seed: int, groups: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Draw rows to learn from, and rows to judge by; those of one group stay together."""
    import numpy as np
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    splitter = ShuffleSplit if groups is None else GroupShuffleSplit
    drawn = splitter(1, test_size=share, random_state=seed).split(np.empty(n_rows), groups=groups)
    train, test = next(drawn)
    return np.sort(train), np.sort(test)


def _sizes(source: Source) -> str:
    """Say how many features and labels there are."""
    d, n_labels = map(len, source.columns)  # type: ignore[arg-type]
    return f"{counted(d, 'feature')}, {counted(n_labels, 'label')}"


def _named(model: Any, source: Source) -> Any:
    """Store the names of features and labels, which arrays do not have, as a fit on frames would."""
    import numpy as np

    from lrml.datasets import NumberedNames

    features, labels = source.columns
    if features is not None:
        numbered = isinstance(features, NumberedNames)
        names = None if numbered else np.array(features, dtype=object)
        model._rename(names, np.array(labels, dtype=object))
    return model
