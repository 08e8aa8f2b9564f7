"""The one module that names folders. Everything derives from where this file lies, never from the working directory."""

from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BUILD = REPO / "build"
DECK_SOURCES = REPO / "deck"
WORDS = DECK_SOURCES / "words"
REQUIREMENTS = BUILD / "requirements.txt"


@dataclass(frozen=True)
class Out:
    """Where one deck lives: the committed one (root = REPO) or one made with `--out`."""

    root: Path

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def manifest(self) -> Path:
        return self.figures / "manifest.json"

    @property
    def deck(self) -> Path:
        return self.root / "deck"

    @property
    def html(self) -> Path:
        return self.deck / "index.html"

    @property
    def built(self) -> tuple[Path, Path]:
        """The files that a run assembles."""
        return self.html, self.deck / "deck.pptx"

    def capture(self, slide_id: str) -> Path:
        return self.figures / "captures" / f"{slide_id}.json"

    def figure(self, slide_id: str) -> Path:
        return self.figures / f"{slide_id}.png"


COMMITTED = Out(REPO)
