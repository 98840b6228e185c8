"""Plans: which candidates a search tries, and what it tries next."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from lrml.core.quadratic import SpectralProblem
from lrml.estimators._grid import Grid, GridPoint, ridges_leaving
from lrml.estimators.search._score_table import ScoreTable
from lrml.estimators.search._search import Judged, Params, Plan

# Ridges with which a search begins, by the shares of effective directions that they leave.
_FIRST_SHARES = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)
# Neighbouring ridges that differ by less than this factor are not told apart.
_FINE = 1.5
# A best value on the edge of what was tried is followed beyond it by this factor, at most so many times.
_BEYOND, _MOST_ROUNDS = 4.0, 6
# Alphas with which a search begins.
_N_ALPHAS = 4
Found: TypeAlias = Generator[list[Params], Judged, tuple[int, float, ScoreTable]]
"""A part of a plan that ends with the place and the value of its best candidate, and the table."""


def once(candidates: Iterable[Params]) -> Plan:
    """Try these candidates."""
    yield list(candidates)


def _follow(values: Iterable[float], candidate: Callable[[float], Params], rival: int | None = None) -> Found:
    """Try values of one parameter; go on beyond the edge if the best is there, and refine around it.

    Ends when a round gains less than one standard error, or if the first one finds nothing better than a
    rival. Returns the best candidate's place and value.
    """
    tried: dict[float, int] = {}

    def judge(fresh: list[float]) -> Generator[list[Params], Judged, ScoreTable]:
        judged = yield [candidate(value) for value in fresh]
        tried.update(zip(fresh, judged.new, strict=True))
        return judged.table

    table = yield from judge(list(dict.fromkeys(values)))
    best = _best(tried, table)
    hopeful = rival is None or table.lead(tried[best], rival)[0] > 0
    for _ in range(_MOST_ROUNDS if hopeful else 0):
        order = sorted(tried)
        at = order.index(best)
        fresh = []
        edge = at in (0, len(order) - 1)
        if at == len(order) - 1:
            fresh.append(best * _BEYOND)
        if at == 0:
            fresh.append(best / _BEYOND)
        near = [order[place] for place in (at - 1, at + 1) if 0 <= place < len(order)]
        fresh += [math.sqrt(best) * math.sqrt(value) for value in near if _apart(best, value)]
        fresh = [value for value in fresh if value not in tried and math.isfinite(value)]
        if not fresh:
            break
        table = yield from judge(fresh)
        last, best = best, _best(tried, table)
        gain, error = table.lead(tried[best], tried[last])
        if gain <= error and not (edge and gain > 0):
            break
    return tried[best], best, table


def _apart(one: float, other: float) -> bool:
    return max(one / other, other / one) > _FINE**2


def _best(tried: dict[float, int], table: ScoreTable) -> float:
    """Return the value with the best score; among equals, the largest."""
    return max(sorted(tried, reverse=True), key=lambda value: table.scores[tried[value], 0])


def ridge_plan(problem: SpectralProblem, candidate: Callable[[float], Params]) -> Found:
    """Search for the best ridge, without any other penalty: every fit is in closed form."""
    return _follow(ridges_leaving(problem, _FIRST_SHARES), candidate)


class Start(NamedTuple):
    """What a search for ridge, alpha and theta begins with."""

    ridges: Sequence[float]  # a single one is taken as it is
    alphas: Callable[[GridPoint], list[float]]  # for a theta and a ridge; none if nothing is penalised
    thetas: Sequence[int]
    least_ridge: float  # as a share of the usual one: the weakest that is tried beside the penalty

    @staticmethod
    def of(problem: SpectralProblem, thetas: Sequence[int], ridge: float | None) -> Start:
        """Return the ridges and alphas that leave given shares of the effective directions."""

        def alphas(point: GridPoint) -> list[float]:
            grid = Grid([point.theta], None, [point.ridge], _N_ALPHAS, None).points(problem)
            return [point.alpha for point in grid if point.alpha > 0]

        ridges = ridges_leaving(problem, _FIRST_SHARES) if ridge is None else [ridge]
        return Start(ridges, alphas, thetas, 0.0)


def tail_plan(
    start: Start,
    candidate: Callable[[GridPoint], Params],
) -> Plan:
    """Search for the best ridge, then alpha, then theta, each as long as it may still matter.

    The penalty shrinks what the ridge shrinks too, so with it a smaller ridge may be better: half of the
    best one is tried first, then the least, and the whole. Other thetas follow if the penalty has gained
    anything. With a single ridge, only alpha and theta are searched.
    """
    half, bare = yield from _bare(start, candidate)
    yield from _penalised(start, candidate, half, bare)


def _bare(
    start: Start, candidate: Callable[[GridPoint], Params]
) -> Generator[list[Params], Judged, tuple[GridPoint, int]]:
    """Search for the best ridge alone; return a point with half of it (or the only one) and its place."""
    point = GridPoint(start.thetas[0], 0.0, start.ridges[0])
    if len(start.ridges) == 1:
        judged = yield [candidate(point)]
        return point, judged.new[0]
    bare, best, _ = yield from _follow(start.ridges, lambda value: candidate(point._replace(ridge=value)))
    return point._replace(ridge=0.5 * best), bare


def _penalised(start: Start, candidate: Callable[[GridPoint], Params], half: GridPoint, bare: int) -> Plan:
    """Search for the best alpha and theta, given the best ridge without them."""
    thetas, alphas = start.thetas, start.alphas(half)
    if not alphas:
        return
    best, alpha, table = yield from _follow(
        alphas, lambda value: candidate(half._replace(alpha=value)), rival=bare
    )
    if table.lead(best, bare)[0] <= 0:
        return
    leader = half._replace(alpha=alpha)
    if half.ridge > 0 and len(start.ridges) > 1:
        others = [
            GridPoint(half.theta, 1.5 * alpha, start.least_ridge * half.ridge),
            GridPoint(half.theta, 0.5 * alpha, 2.0 * half.ridge),
        ]
        best, leader, table = yield from _better(others, candidate, (best, leader))
    gain, error = table.lead(best, bare)
    if gain <= error or len(thetas) == 1:
        return
    others = [leader._replace(theta=theta) for theta in thetas[1::2]]
    best, found, table = yield from _better(others, candidate, (best, leader))
    if found.theta != leader.theta:
        others = [found._replace(alpha=factor * found.alpha) for factor in (0.5, 2.0)]
        others += [found._replace(theta=theta) for theta in thetas[2::2]]
        yield from _better(others, candidate, (best, found))


def _better(
    points: list[GridPoint], candidate: Callable[[GridPoint], Params], leader: tuple[int, GridPoint]
) -> Generator[list[Params], Judged, tuple[int, GridPoint, ScoreTable]]:
    """Try further points; return the best of them and the leader."""
    judged = yield [candidate(point) for point in points]
    places = dict([leader, *zip(judged.new, points, strict=True)])
    best = max(places, key=lambda place: judged.table.scores[place, 0])
    return best, places[best], judged.table


def extending(candidates: list[Params], names: Iterable[str]) -> Plan:
    """Try a grid; if the best value of a parameter is on its edge, go on beyond it while that is better."""
    judged = yield candidates
    tried = list(candidates)
    for name in names:
        for _ in range(_MOST_ROUNDS):
            scores = judged.table.scores[: len(tried), 0]
            best = tried[int(np.nanargmax(scores))] if np.isfinite(scores).any() else tried[0]
            values = sorted({one[name] for one in tried if one[name] > 0})
            if len(values) < 2 or best[name] not in (values[0], values[-1]):
                break
            factor = _BEYOND if best[name] == values[-1] else 1.0 / _BEYOND
            tried.append(best | {name: factor * best[name]})
            before = float(np.nanmax(scores, initial=-np.inf))
            judged = yield tried[-1:]
            if not judged.table.scores[len(tried) - 1, 0] > before:
                break


def shrinking(plan: Plan, shrink: Callable[[Params], Params]) -> Plan:
    """After a plan, make the smallest candidate within one standard error of the best smaller, and so on."""
    tried: list[Params] = []
    fresh = next(plan)
    while True:
        judged = yield fresh
        tried += fresh
        try:
            fresh = plan.send(judged)
        except StopIteration:
            break
    for _ in range(_MOST_ROUNDS):
        near = [place for place in range(len(tried)) if judged.table.is_near_best(place)]
        fresh = [shrink(tried[place]) for place in sorted(near, key=judged.table.ranks[:, 0].__getitem__)[:1]]
        if not fresh or fresh[0] in tried:
            break
        tried += fresh
        judged = yield fresh
