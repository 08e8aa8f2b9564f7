"""Sections, their pace, and what the one who speaks reads: the notes' questions stand apart."""

import re

from pipeline.deck import words
from pipeline.deck.sections import MINUTES, sections

QUESTION = re.compile(r"The likely question is|Likely question:|The question to expect")


def test_a_section_has_the_share_of_the_talk_that_its_notes_have_of_the_words():
    found = sections([(1, "A", "one two"), (2, "A", "three"), (3, "B", "four"), (7, "A", "five six seven eight")])
    assert [(one.name, one.first, one.last, one.counted) for one in found] == [
        ("A", 1, 2, "2 slides"), ("B", 3, 3, "1 slide"), ("A", 7, 7, "1 slide"),
    ]  # fmt: skip
    assert [one.minute for one in found] == [15, 20, MINUTES]
    assert found[1].pace == f"By the end of slide {found[1].last}: 20 min of 40"


def test_the_committed_deck_ends_in_time_and_no_section_is_rushed(deck):
    notes = [words.render(one.slide, one.capture).notes_text for one in deck]
    found = sections([(one.slide.number, one.section, said) for one, said in zip(deck, notes, strict=True)])
    assert [one.minute for one in found] == sorted(one.minute for one in found)
    assert found[-1].minute == MINUTES and found[-1].last == deck[-1].slide.number
    assert sum(one.count for one in found) == len(deck)


def test_a_likely_question_begins_a_paragraph_of_its_own(deck):
    asked = 0
    for one in deck:
        for paragraph in words.render(one.slide, one.capture).notes_text.split("\n"):
            assert not QUESTION.search(paragraph, 1), f"{one.slide.id}: {paragraph}"
            asked += bool(QUESTION.match(paragraph))
    assert asked >= len(deck) * 3 / 4
