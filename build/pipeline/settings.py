"""What every part of a run takes for granted: the seed, the sentence when no other is given, and what a slide can show."""

SEED = 20
DEFAULT_SENTENCE = "The beekeeper put on her gloves and opened the"
LONGEST = 256  # tokens of a sentence: more cannot be shown on a slide
LONGEST_COMPLETION = 64  # tokens that any slide generates after the sentence
COMPLETION_LENGTH = 8  # tokens of greedy completion that the opening slides show
