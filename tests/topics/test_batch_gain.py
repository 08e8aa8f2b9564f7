"""What a batch gains: the ratio is read off medians and must be above 1."""

import pytest

from topics import batch_gain


@pytest.mark.parametrize(("ratio", "holds"), [(1.01, True), (1.0, False), (0.9, False)])
def test_a_batch_of_eight_must_make_more_tokens_than_one(ratio: float, holds: bool):
    runs = [
        {"batch": size, "seconds": [rate] * batch_gain.ROUNDS, "tokens_per_second": size * batch_gain.STEPS / rate}
        | dict.fromkeys(("ratio", "lowest", "highest"), size / rate)
        for size, rate in zip(batch_gain.BATCHES, (1.0, 1.0, 1.0, 8 / ratio, 1.0), strict=True)
    ]
    verdict = batch_gain.oracle_throughput({"runs": runs, "steps": batch_gain.STEPS, "rounds": batch_gain.ROUNDS, "prefix": 1})
    assert verdict.holds == holds
