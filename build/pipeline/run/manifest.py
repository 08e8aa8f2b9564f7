"""What a deck's folder knows of itself: `figures/manifest.json`, committed with the deck, and this clone's ledger beside it.

Both are read once a run and handed on. The manifest has an entry for each slide: what was found, and what it was made
from. The ledger, which git ignores, says which captures were seen to hold on this machine. Decides nothing.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.checksum import file_sha256
from pipeline.command import for_shell, retake
from pipeline.errors import BadInput, MissingPart
from pipeline.paths import COMMITTED, Out
from pipeline.slide import Slide, Verdict

VERSION = 2
Parts = dict[str, str]  # what something was made from: name -> short hash or identity


@dataclass(frozen=True)
class Entry:
    """One slide as the last good run left it."""

    id: str
    number: int
    section: str
    kind: str
    volatile: bool
    claim: str
    verdict: Verdict
    model: str | None
    server: str | None
    capture_sha256: str
    figure_sha256: str
    capture_parts: Parts
    draw_parts: Parts
    flags: str = ""  # of the command that took it: another model, sentence or folder, as a shell reads them

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Entry":
        """An entry from its JSON. Raises ValueError for any other shape."""
        if row.keys() != {one.name for one in dataclasses.fields(cls)}:
            raise ValueError(f"an entry has other fields: {', '.join(sorted(map(str, row)))}")
        entry = cls(**{**row, "verdict": Verdict(**row["verdict"])})
        texts = [entry.id, entry.section, entry.kind, entry.claim, entry.capture_sha256, entry.figure_sha256, entry.flags]
        texts += [entry.verdict.measured, entry.verdict.bound, entry.model or "", entry.server or ""]
        parts = (*entry.capture_parts.items(), *entry.draw_parts.items())
        if not all(isinstance(text, str) for text in (*texts, *(text for pair in parts for text in pair))):
            raise ValueError(f"the entry of {entry.id} holds something else than texts")
        if not isinstance(entry.number, int) or not isinstance(entry.volatile, bool) or not isinstance(entry.verdict.holds, bool):
            raise ValueError(f"the entry of {entry.id} holds something else than numbers and truth values")
        return entry


@dataclass(frozen=True)
class Manifest:
    """A deck's manifest and ledger, as they were when the run began. `damage` says why the manifest could not be read."""

    out: Out
    entries: dict[str, Entry] = field(default_factory=dict)
    deck_parts: Parts = field(default_factory=dict)
    deck_files: Parts = field(default_factory=dict)
    held_here: dict[str, str] = field(default_factory=dict)  # slide -> sha256 of a capture seen to hold on this machine
    damage: str = ""

    def flags_of(self, slide_id: str) -> str:
        """The flags that a slide of this deck was taken with, or those that lead to its folder."""
        entry = self.entries.get(slide_id)
        return entry.flags if entry and entry.flags else self.own_folder

    @property
    def own_folder(self) -> str:
        return "" if self.out == COMMITTED else f"--out={for_shell(str(self.out.root))}"

    def retake(self, slide_id: str) -> str:
        """The command that takes a slide of this deck again."""
        return retake(slide_id, self.flags_of(slide_id))

    def flaw_of_capture(self, slide_id: str) -> str:
        """What is wrong with a slide's capture on the disk; nothing when it is the one that the manifest was written for."""
        capture = self.out.capture(slide_id)
        if slide_id not in self.entries:
            return "never taken"
        if not capture.is_file():
            return "its capture is missing"
        return "" if file_sha256(capture) == self.entries[slide_id].capture_sha256 else "its capture was changed by hand"

    def capture(self, slide_id: str) -> dict[str, Any]:
        """A slide's capture. Raises MissingPart when it is missing, BadInput when it is damaged."""
        path = self.out.capture(slide_id)
        try:
            capture = json.loads(path.read_text("utf-8"))
            if not {"provenance", "data"} <= capture.keys():
                raise ValueError("it lacks provenance or data")
            return capture
        except FileNotFoundError:
            raise MissingPart(f"{path} is missing; take it: {self.retake(slide_id)}") from None
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadInput(f"{path} is damaged ({error}); take it again: {self.retake(slide_id)}") from None

    def deck_is_whole(self) -> bool:
        """Whether the built deck's files are there with the bytes that the manifest names."""
        files = {path.name: path for path in self.out.built}
        return all(path.is_file() and file_sha256(path) == self.deck_files.get(name) for name, path in files.items())


def read(out: Out) -> Manifest:
    """The manifest and the ledger of a deck; without entries when there is none yet, or when it is damaged."""
    here = _held_here(out)
    try:
        found = json.loads(out.manifest.read_text("utf-8"))
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']!r}, this command writes {VERSION}")
        entries = {entry.id: entry for entry in map(Entry.read, found["slides"])}
        deck = found["deck"]
        return Manifest(out, entries, dict(deck["parts"]), dict(deck["files"]), here)
    except FileNotFoundError:
        return Manifest(out, held_here=here)
    except (ValueError, TypeError, KeyError, AttributeError, LookupError, RecursionError, OSError) as error:
        return Manifest(out, held_here=here, damage=f"{out.manifest} cannot be read ({type(error).__name__}: {error})")


def text_of(counts: Mapping[str, int], entries: list[Entry], parts: Parts, files: Parts) -> str:
    """The manifest as it stands in its file."""
    deck = {"parts": parts, "files": files}
    document = {"version": VERSION, "counts": counts, "slides": [dataclasses.asdict(one) for one in entries], "deck": deck}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def facts_of(slide: Slide) -> dict[str, Any]:
    """What a slide says of itself, without any run."""
    return {name: getattr(slide, name) for name in ("id", "number", "section", "kind", "volatile", "claim")}


def ledger(out: Out) -> Path:
    return out.figures / ".held_here.json"


def _held_here(out: Out) -> dict[str, str]:
    try:
        found = json.loads(ledger(out).read_text("utf-8"))
        return {name: sha256 for name, sha256 in found.items() if isinstance(sha256, str)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}  # everything is then taken once more, which writes it anew


def note_held(manifest: Manifest, held: Mapping[str, str]) -> None:
    """Note the captures that were seen to hold on this machine, beside those noted before."""
    ledger(manifest.out).write_text(json.dumps({**manifest.held_here, **held}, sort_keys=True), "utf-8")
