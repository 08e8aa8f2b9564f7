"""What the captures of a run will be taken of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """What the captures of this run will be taken of: the part of the world that decides staleness."""

    sentence: str
    model: str  # identity, see models.ModelChoice
    server: str  # identity, see servers.ServerChoice
    asked: str = ""  # a provider's model for the slides on one call shape, instead of the server
    flags: str = ""  # of the command: another model, sentence or folder, as a shell reads them
    own: str = ""  # identity of the server with the model above in it, for slides that ask for that one
