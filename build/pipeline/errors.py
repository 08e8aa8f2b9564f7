"""The two ways a run ends with one line instead of a deck. Each message says what to do."""


class DeckError(Exception):
    """Something to tell in one line, with the exit code it ends the run with."""

    exit_code = 1


class BadInput(DeckError):
    """What was asked for cannot be done."""

    exit_code = 2


class MissingPart(DeckError):
    """A needed part is missing: a model, a server, a package, a writable folder."""

    exit_code = 3
