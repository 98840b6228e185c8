"""What was fitted, and by which held-out rows it was chosen: for machines and in words."""

from __future__ import annotations

import math
from typing import Any

_PARAMS = ("theta", "rank", "alpha", "ridge", "loss", "kernel")


def facts_of(model: Any) -> dict[str, Any]:
    """Return what a fitted model, search or tagger is, as plain data."""
    inner = getattr(model, "model_", model)
    best = getattr(inner, "best_estimator_", inner)
    given = best.get_params(deep=False) | {"loss": best.loss_}
    params = {name: given.get(name) for name in _PARAMS}
    for name in ("theta", "alpha", "ridge"):
        params[name] = getattr(best, f"{name}_", None) if params[name] is None else params[name]
    facts: dict[str, Any] = {
        "estimator": type(best).__name__,
        "params": {name: value for name, value in params.items() if value is not None},
        "penalty_on": getattr(best, "space_", None),
        "features": int(best.n_features_in_),
        "labels": len(best.intercept_),
        "rank": int(best.rank_),
        "bytes": int(best.nbytes_),
        "converged": bool(best.converged_),
        "status": best.status_,
    }
    return facts | (_search_facts(inner) if best is not inner else {})


def _search_facts(search: Any) -> dict[str, Any]:
    usual = "minus the loss per row" if len(search.intercept_) == 1 else "average precision"
    found = getattr(search, "search_", {})  # files of earlier versions have less
    lead = {key: found.get(key, math.nan) for key in ("gain", "gain_error")}
    return {
        "params": facts_of(search.best_estimator_)["params"] | search.best_params_,
        "held_out_score": float(search.best_score_),
        "scoring": usual if search.scoring is None else str(search.scoring),
        "judged_by": found.get("judged_by", "on held-out rows"),
        "candidates": len(search.cv_results_["params"]),
        **{f"{key}_over_ridge": value if math.isfinite(value) else None for key, value in lead.items()},
    }


def in_words(facts: dict[str, Any]) -> list[str]:
    """Return the lines that say what was fitted."""
    params = dict(facts["params"])
    words = [f"{params.pop('loss').replace('_', ' ')} loss"]
    words += [f"{params.pop('kernel')} kernel"] if params.get("kernel", "linear") != "linear" else []
    params.pop("kernel", None)
    words += [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in params.items()
        if name != "rank"
    ]
    words += [f"penalty on the {facts['penalty_on']}"] if facts["penalty_on"] else []
    lines = [
        f"{facts['estimator']}: {', '.join(words)}",
        f"rank {facts['rank']}, {facts['features']:,d} features, {facts['labels']:,d} labels, "
        f"{facts['bytes']:,d} bytes",
        *([] if facts["converged"] else [facts["status"]]),
    ]
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
