"""Completion of planted matrices: recovery under both penalties, and a million observed entries.

python benchmarks/completion.py recovery [--seeds 20] [--out DIR] [--images DIR]
python benchmarks/completion.py scale [--rows 10000] [--columns 5000] [--observed 1000000] [--out DIR]

``recovery`` completes 60 × 50 matrices of rank 3 plus noise, partly observed, under the tail sum (theta = 3)
and the trace norm; alpha is chosen for each on the same held-out tenth of the observed entries. ``scale``
completes one large matrix by factors and compares time and memory with two peers in the same process: the
plain soft-impute iteration for the same objective, and alternating least squares of fixed rank.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from _data import machine
from memory import resident_gigabytes
from scipy.sparse.linalg import LinearOperator, svds

from lrml.completion import complete, select_alpha
from lrml.core.penalties import TailSum
from lrml.solvers import Factors

SHAPE, RANK, NOISE = (60, 50), 3, 0.1
SHARES = (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8)
HIGHEST_ERROR = 10.0
SCALE_RANK, SCALE_ALPHA = 10, 3.0
MOST_TRIPLETS = 40


def planted(share: float, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix of low rank, and its observed entries: noisy, with NaN elsewhere."""
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal((SHAPE[0], RANK)) @ generator.standard_normal((RANK, SHAPE[1]))
    seen = truth + noise * generator.standard_normal(SHAPE)
    return truth, np.where(generator.random(SHAPE) < share, seen, np.nan)


def recover(share: float, noise: float, seed: int) -> dict[str, Any]:
    """Relative errors ‖Z − truth‖/‖truth‖ of both penalties, each with its own chosen alpha."""
    truth, M = planted(share, noise, seed)
    record: dict[str, Any] = {"share": share, "noise": noise, "seed": seed}
    for name, theta in (("tail sum", RANK), ("trace norm", 0)):
        alpha = select_alpha(M, theta, random_state=seed).alpha
        done = complete(M, TailSum(theta, alpha), tol=1e-5)
        error = np.linalg.norm(done.dense() - truth) / np.linalg.norm(truth)
        record[name] = {"error": float(error), "alpha": alpha, "rank": done.rank, "status": done.status}
    return record


def recovery(seeds: int, out: Path, images: Path) -> None:
    noises = (NOISE, 10 * NOISE)
    records = []
    for noise in noises:
        for share in SHARES:
            found = [recover(share, noise, seed) for seed in range(seeds)]
            tail, trace = (np.array([r[n]["error"] for r in found]) for n in ("tail sum", "trace norm"))
            print(
                f"noise {noise}  share {share}  tail sum {np.median(tail):.4f}  trace norm "
                f"{np.median(trace):.4f}  tail sum better in {np.sum(tail < trace)} of {seeds}",
                flush=True,
            )
            records += found
    write(out / "completion_recovery.json", records)
    draw(records, noises, images / "completion_recovery.png")


def draw(records: list[dict[str, Any]], noises: tuple[float, ...], path: Path) -> None:
    """Median and range of the errors against the observed share, one panel per noise."""
    figure, panels = plt.subplots(1, len(noises), figsize=(9, 3.6), layout="constrained")
    for panel, noise in zip(panels, noises, strict=True):
        for name, colour, marker in (("trace norm", "#b5542b", "s"), ("tail sum", "#23608f", "o")):
            errors = np.array(
                [
                    [r[name]["error"] for r in records if r["share"] == share and r["noise"] == noise]
                    for share in SHARES
                ]
            )
            panel.fill_between(SHARES, errors.min(axis=1), errors.max(axis=1), color=colour, alpha=0.15, lw=0)
            label = f"{name}, theta = {RANK}" if name == "tail sum" else name
            panel.plot(SHARES, np.median(errors, axis=1), color=colour, marker=marker, ms=4, label=label)
        panel.set(yscale="log", xlabel="observed share", title=f"noise {noise:g}")
        # Failures are far larger; on their scale nothing else could be distinguished.
        panel.set_ylim(top=min(panel.get_ylim()[1], HIGHEST_ERROR))
        panel.grid(alpha=0.25, which="both")
    panels[0].set_ylabel("‖Z − truth‖ / ‖truth‖")
    panels[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def large(rows: int, columns: int, observed: int) -> tuple[sp.csr_array, Callable[[Any], float]]:
    """Return a sparse sample of a planted matrix, and the error on entries that were not sampled."""
    generator = np.random.default_rng(0)
    left = generator.standard_normal((rows, SCALE_RANK))
    right = generator.standard_normal((columns, SCALE_RANK))
    flat = np.unique(generator.integers(0, rows * columns, size=int(1.1 * observed)))
    flat = generator.permutation(flat)[:observed]
    i, j = np.divmod(flat, columns)
    values = np.einsum("ij,ij->i", left[i], right[j]) + NOISE * generator.standard_normal(len(flat))
    a, b = generator.integers(0, rows, 100_000), generator.integers(0, columns, 100_000)
    truth = np.einsum("ij,ij->i", left[a], right[b])

    def error(at: Callable[[Any, Any], np.ndarray]) -> float:
        return float(np.linalg.norm(at(a, b) - truth) / np.linalg.norm(truth))

    return sp.csr_array((values, (i, j)), shape=(rows, columns)), error


def soft_impute(M: sp.csr_array, penalty: TailSum, goal: float, most: int) -> tuple[Any, int]:
    """Iterate Z ← prox(P_Ω(M) + P_Ω⊥(Z)) from 0 until the objective is within 0.1 % of ``goal``.

    As in `complete`, a step finds a few more triplets than the last one kept, by Lanczos's method.
    """
    rows = np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))
    U, s, V = np.zeros((M.shape[0], 0)), np.zeros(0), np.zeros((M.shape[1], 0))
    misfit = M.data
    for count in range(1, most + 1):
        S, left = sp.csr_array((misfit, M.indices, M.indptr), shape=M.shape), U * s
        St = S.T.tocsr()
        step = LinearOperator(
            M.shape,
            matvec=lambda x, S=S, left=left, V=V: S @ x + left @ (V.T @ x),
            rmatvec=lambda y, St=St, left=left, V=V: St @ y + V @ (left.T @ y),
            dtype=float,
        )
        k = min(max(penalty.theta, len(s)) + 3, MOST_TRIPLETS)
        U, found, Vt = svds(step, k=k)
        while found[0] > penalty.alpha and k < MOST_TRIPLETS:
            k = min(k + 4, MOST_TRIPLETS)
            U, found, Vt = svds(step, k=k)
        s = penalty.prox(found[::-1], 1.0)
        kept = s > 0
        U, s, V = U[:, ::-1][:, kept], s[kept], Vt[::-1].T[:, kept]
        misfit = M.data - np.einsum("ij,ij->i", (U * s)[rows], V[M.indices])
        if 0.5 * misfit @ misfit + penalty.value(s) <= 1.001 * goal:
            return Factors(U, s, V), count
    return Factors(U, s, V), most


def least_squares(M: sp.csr_array, sweeps: int) -> tuple[np.ndarray, np.ndarray]:
    """Alternating ridge regressions of fixed rank, a plain loop over rows and columns."""
    V = np.random.default_rng(1).standard_normal((M.shape[1], SCALE_RANK))
    U = np.zeros((M.shape[0], SCALE_RANK))
    by_row, by_column = M.tocsr(), M.T.tocsr()
    ridge = NOISE**2 * np.eye(SCALE_RANK)
    for _ in range(sweeps):
        for matrix, fixed, free in ((by_row, V, U), (by_column, U, V)):
            for k in range(matrix.shape[0]):
                some = slice(matrix.indptr[k], matrix.indptr[k + 1])
                basis = fixed[matrix.indices[some]]
                free[k] = np.linalg.solve(basis.T @ basis + ridge, basis.T @ matrix.data[some])
    return U, V


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return a result, its seconds, and the growth of the peak of resident memory in GB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")
    before, start = resident_gigabytes("VmRSS"), time.perf_counter()
    result = work()
    return result, time.perf_counter() - start, resident_gigabytes("VmHWM") - before


def scale(rows: int, columns: int, observed: int, out: Path) -> None:
    M, error = large(rows, columns, observed)
    penalty = TailSum(SCALE_RANK, SCALE_ALPHA, max_rank=MOST_TRIPLETS)
    done, seconds, memory = measured(lambda: complete(M, penalty, tol=1e-4))
    records = [
        {"method": "lrml", "seconds": seconds, "gb": memory, "error": error(done.values)}
        | {"steps": done.n_iter, "rank": done.rank, "objective": done.objective, "status": done.status}
    ]
    print(records[-1], flush=True)
    (U, V), seconds, memory = measured(lambda: least_squares(M, 15))
    at = error(lambda i, j: np.einsum("ij,ij->i", U[i], V[j]))
    records.append({"method": "ALS", "seconds": seconds, "gb": memory, "error": at, "steps": 15})
    print(records[-1], flush=True)
    (Z, count), seconds, memory = measured(lambda: soft_impute(M, penalty, done.objective, 40))
    at = error(lambda i, j: np.einsum("ij,ij->i", (Z.U * Z.s)[i], Z.V[j]))
    records.append({"method": "soft-impute", "seconds": seconds, "gb": memory, "error": at, "steps": count})
    print(records[-1], flush=True)
    print(f"data {(M.data.nbytes + M.indices.nbytes + M.indptr.nbytes) / 1e9:.3f} GB")
    print(f"dense matrix {rows * columns * 8 / 1e9:.2f} GB")
    write(out / "completion_scale.json", records)


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "results": records}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("recovery", "scale"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=5_000)
    parser.add_argument("--observed", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    if arguments.part == "recovery":
        recovery(arguments.seeds, arguments.out, arguments.images)
    else:
        scale(arguments.rows, arguments.columns, arguments.observed, arguments.out)


if __name__ == "__main__":
    main()
