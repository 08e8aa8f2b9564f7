"""Three calls that differ in base URL and model and in nothing else."""

import json

import pytest

from pipeline.lab import Lab
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from topics import serving_options

(THREE_OPTIONS,) = serving_options.SLIDES


def taken() -> dict:
    return json.loads(to_json(THREE_OPTIONS.capture(Lab(DEFAULT_SENTENCE, lambda: None))))


def refused(data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(THREE_OPTIONS, data)


@pytest.mark.parametrize("option", range(3))
@pytest.mark.parametrize("field", ["path", "messages", "temperature", "max_tokens"])
def test_a_third_difference_is_refused(option, field):
    data = taken()
    data["options"][option]["call"][field] = "another"
    refused(data)


@pytest.mark.parametrize("field", ["base_url", "model"])
def test_two_calls_that_share_an_address_or_a_model_are_refused(field):
    data = taken()
    data["options"][2]["call"][field] = data["options"][0]["call"][field]
    refused(data)


def test_two_options_are_not_three():
    data = taken()
    data["options"].pop()
    refused(data)
