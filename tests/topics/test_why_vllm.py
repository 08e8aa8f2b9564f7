"""The arithmetic of the concept cards on serving, tried on lengths other than theirs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.slide import assert_holds, to_json
from slide_fixtures import refused
from topics import why_vllm

SLABS, TABLE = why_vllm.SLIDES


def taken(slide) -> dict:
    return json.loads(to_json(slide.capture(None)))


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_pages_hold_any_lengths_and_waste_less_than_one_page_a_request(lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(why_vllm, "REQUESTS", {str(i): length for i, length in enumerate(lengths)})
        data = taken(SLABS)
        assert_holds(SLABS, data)
    assert data["page_waste"] < data["page"] * len(lengths)
    assert data["page_waste"] == sum(-length % data["page"] for length in lengths)


@pytest.mark.parametrize("place", ["slab_waste", "page_waste"])
def test_waste_that_is_miscounted_is_refused(place):
    refused(SLABS, {**taken(SLABS), place: taken(SLABS)[place] + 1})


def test_a_token_in_the_wrong_place_of_a_page_is_refused():
    data = taken(TABLE)
    page = data["pages"][data["tables"]["A"][0]]
    page[0], page[1] = page[1], page[0]
    refused(TABLE, data)


def test_blocks_in_the_wrong_order_are_refused():
    data = taken(TABLE)
    data["tables"]["B"].reverse()
    refused(TABLE, data)


def test_a_page_that_nobody_owns_must_be_empty():
    data = taken(TABLE)
    owned = {page for table in data["tables"].values() for page in table}
    free = next(page for page in range(len(data["pages"])) if page not in owned)
    data["pages"][free][0] = "stray"
    refused(TABLE, data)


def test_the_pages_of_a_sequence_are_scattered():
    """Otherwise the card would show nothing."""
    assert all(table != sorted(table) for table in taken(TABLE)["tables"].values())


@pytest.mark.parametrize("slide", why_vllm.SLIDES, ids=lambda slide: slide.name)
def test_the_cards_need_neither_model_nor_server(slide):
    assert (slide.kind, slide.needs) == ("concept", ())
