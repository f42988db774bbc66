"""The draw of epochs, and estimates for all epochs from those that were recorded."""

from __future__ import annotations

import random
import statistics

import pytest
from marey.training.sampling import Draw, Sampler, counted, estimate, weights

EPOCHS = 120
# A slow first epoch, noise, and a slow growth.
TIMES = [
    300.0 if epoch == 0 else 50 + random.Random(epoch).gauss(0, 10) + epoch / 20
    for epoch in range(EPOCHS)
]


def draw(rate: float, *, is_adaptive: bool = True, epochs: int = EPOCHS) -> list[Draw]:
    sampler = Sampler(rate, is_adaptive=is_adaptive)
    return [drawn for drawn in (sampler.draw() for _ in range(epochs)) if drawn.is_sampled]


def test_each_epoch_is_drawn_with_its_probability() -> None:
    trials = 4000
    drawn = [0] * EPOCHS
    for _ in range(trials):
        for each in draw(0.1):
            drawn[each.number] += 1
    assert drawn[0] == trials
    for epoch in range(1, EPOCHS):
        expected = 0.3 if epoch < 10 else 0.1
        assert drawn[epoch] / trials == pytest.approx(expected, abs=0.035)  # over 4 deviations


def test_the_number_of_drawn_epochs_hardly_varies() -> None:
    counts = {len(draw(0.1, is_adaptive=False, epochs=1001)) for _ in range(50)}
    assert counts <= {100, 101, 102}


def test_the_estimate_has_no_bias_and_its_interval_covers() -> None:
    truth = sum(TIMES)
    totals, covered, trials = [], 0, 2000
    for _ in range(trials):
        drawn = draw(0.1)
        found = estimate(
            [TIMES[epoch.number] for epoch in drawn],
            [epoch.probability for epoch in drawn],
            EPOCHS,
        )
        assert found.low is not None
        assert found.high is not None
        totals.append(found.total)
        covered += found.low <= truth <= found.high
    assert statistics.fmean(totals) == pytest.approx(truth, rel=0.003)
    assert covered / trials >= 0.93


def test_epochs_with_operators_do_not_make_the_estimate_longer() -> None:
    # Operators of the third to the seventh recorded epoch, as by default.
    epochs, cost_ms, found = 60, 5.0, []
    for _ in range(2000):
        drawn = draw(0.2, epochs=epochs)
        have_operators = [2 <= position < 7 for position in range(len(drawn))]
        times = [20 + cost_ms * has for has in have_operators]
        probabilities = counted([epoch.probability for epoch in drawn], have_operators)
        estimated = estimate(times, probabilities, epochs).total
        found.append(estimated - (20 * epochs + cost_ms * 5))
    assert statistics.fmean(found) == pytest.approx(0, abs=0.001 * 20 * epochs)
    assert max(map(abs, found)) <= 0.03 * 20 * epochs


def test_epochs_with_operators_count_like_the_others_if_there_are_no_two_others() -> None:
    assert counted([1.0, 0.1, 0.1], [False, False, True]) == [1.0, 0.1, 0.1]
    assert counted([1.0, 0.1, 0.1, 0.1], [False, False, True, False]) == [1.0, 0.1, 1.0, 0.1]


def test_weights_add_up_to_all_epochs() -> None:
    drawn = draw(0.1)
    assert sum(weights([epoch.probability for epoch in drawn], EPOCHS)) == pytest.approx(EPOCHS)
    assert weights([1.0], 5) == [5.0]


def test_all_epochs_are_no_estimate() -> None:
    assert estimate([1.0, 2.0], [1.0, 1.0], 2) == (3.0, 3.0, 3.0)


def test_a_single_epoch_has_no_interval() -> None:
    assert estimate([2.0], [1.0], 10) == (20.0, None, None)
    assert estimate([2.0, 3.0], [1.0, 0.1], 10) == (29.0, None, None)
