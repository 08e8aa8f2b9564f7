"""Two requests that differ in three fields and in nothing else."""

import json

import pytest

from pipeline.lab import Lab
from pipeline.settings import DEFAULT_SENTENCE
from pipeline.slide import OracleFailure, assert_holds, to_json
from topics import hosted_or_local

(SAME_CALL,) = hosted_or_local.SLIDES


def taken() -> dict:
    return json.loads(to_json(SAME_CALL.capture(Lab(DEFAULT_SENTENCE, lambda: None))))


def refused(data) -> None:
    with pytest.raises(OracleFailure):
        assert_holds(SAME_CALL, data)


@pytest.mark.parametrize("field", ["path", "messages", "temperature", "max_tokens"])
def test_a_fourth_difference_is_refused(field):
    data = taken()
    data["hosted"][field] = "another"
    refused(data)


@pytest.mark.parametrize("field", ["base_url", "api_key", "model"])
def test_one_difference_fewer_is_refused(field):
    data = taken()
    data["hosted"][field] = data["local"][field]
    refused(data)


@pytest.mark.parametrize("request_name", ["local", "hosted"])
def test_a_field_that_only_one_request_has_is_refused(request_name):
    data = taken()
    data[request_name]["stream"] = True
    refused(data)


def test_a_local_address_that_is_elsewhere_is_refused():
    data = taken()
    data["local"]["base_url"] = "https://somewhere.example/v1"
    refused(data)


def test_what_looks_like_a_real_key_is_refused():
    data = taken()
    data["hosted"]["api_key"] = "sk-0123456789"
    refused(data)
