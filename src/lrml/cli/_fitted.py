"""What was fitted, and by which held-out rows it was chosen: for machines and in words."""

from __future__ import annotations

import math
from typing import Any

_PARAMS = ("theta", "rank", "alpha", "ridge", "loss", "kernel")


def facts_of(model: Any) -> dict[str, Any]:
    """Return what a fitted model, search or tagger is, as plain data."""
    inner = getattr(model, "model_", model)
    best = getattr(inner, "best_estimator_", inner)
    found = {name: getattr(best, f"{name}_", None) for name in _PARAMS if name != "rank"}
    found |= {name: one for name, one in best.get_params(deep=False).items() if one is not None}
    params = {name: found[name] for name in _PARAMS if found.get(name) is not None}
    facts: dict[str, Any] = {
        "estimator": type(best).__name__,
        "params": params | getattr(inner, "best_params_", {}),
        "penalty_on": getattr(best, "space_", None),
        "features": int(best.n_features_in_),
        "labels": len(best.intercept_),
        "rank": int(best.rank_),
        "bytes": int(best.nbytes_),
        "converged": bool(best.converged_),
        "status": best.status_,
    }
    if best is inner:
        return facts
    usual = "minus the loss per row" if facts["labels"] == 1 else "average precision"
    lead = {f"{key}_over_ridge": inner.search_[key] for key in ("gain", "gain_error")}
    return facts | {
        "held_out_score": float(inner.best_score_),
        "scoring": usual if inner.scoring is None else str(inner.scoring),
        "judged_by": inner.search_["judged_by"],
        "candidates": len(inner.cv_results_["params"]),
        **{key: value if math.isfinite(value) else None for key, value in lead.items()},
    }


def in_words(facts: dict[str, Any]) -> list[str]:
    """Return the lines that say what was fitted, and how it ended unless it has converged."""
    params = facts["params"]
    words = [f"{params['loss'].replace('_', ' ')} loss"]
    words += [f"{params['kernel']} kernel"] if params.get("kernel", "linear") != "linear" else []
    for name in ("theta", "alpha", "ridge"):
        if name in params:
            words.append(f"{name} {params[name]:.4g}")
    words += [f"penalty on the {facts['penalty_on']}"] if facts["penalty_on"] else []
    size = f"rank {facts['rank']}, {facts['features']:,d} features, {facts['labels']:,d} labels"
    lines = [f"{facts['estimator']}: {', '.join(words)}", f"{size}, {facts['bytes']:,d} bytes"]
    lines += [] if facts["converged"] else [facts["status"]]
    if "held_out_score" in facts:
        lines.append(
            f"{facts['scoring']} {facts['held_out_score']:.4f} {facts['judged_by']}, the choice among "
            f"{facts['candidates']} candidates"
        )
        gain, error = facts["gain_over_ridge"], facts["gain_error_over_ridge"]
        if gain is not None:
            spread = "" if error is None else f" ± {error:.4f}"
            lines.append(f"lead of a penalty over the best ridge alone: {gain:+.4f}{spread}")
    return lines
