"""Every oracle against its sabotage and against damage to its capture, as a table: `make falsify`.

An oracle that survives damage to what it looks up fails the run, but for what build/doubt/explained.toml gives a reason for.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from decks import ONE_CALL
from doubt.damage import DAMAGE, Case, cases
from doubt.seen import Seen, is_read
from pipeline.paths import COMMITTED
from pipeline.run import manifest
from pipeline.run.flags import parser, with_the_decks_own_sources
from pipeline.run.found import find
from pipeline.run.session import Session
from pipeline.slide import Data, OracleFailure, Slide, assert_holds, to_json

EXPLAINED = Path(__file__).with_name("explained.toml")


@dataclass
class Trial:
    """What one slide's oracle did with all of it."""

    slide: Slide
    sabotage: str = ""
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DAMAGE, 0))
    unread: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DAMAGE, 0))
    survived: list[Case] = field(default_factory=list)

    def cell(self, damage: str) -> str:
        survived = sum(case.damage == damage for case in self.survived)
        return (
            f"{self.refused[damage]}"
            + (f" +{self.unread[damage]}" if self.unread[damage] else "")
            + f" !{survived}" * (survived > 0)
        )


def committed(slide: Slide) -> Data:
    return json.loads(COMMITTED.capture(slide.id).read_text("utf-8"))["data"]


def refuses(slide: Slide, data: Data) -> bool:
    try:
        return not assert_holds(slide, data).holds
    except OracleFailure:
        return True


def read_by(slide: Slide, data: Data) -> set[tuple[str | int, ...]]:
    """The keys that a slide's oracle looks up."""
    log: set[tuple[str | int, ...]] = set()
    slide.oracle(Seen(data, log))
    return log


def trial(slide: Slide) -> Trial:
    """Every damage to every place of a slide's capture."""
    data, done = committed(slide), Trial(slide)
    read = read_by(slide, data)
    for case in cases(data):
        if case.done_to(data, lambda damaged: refuses(slide, damaged)):
            done.refused[case.damage] += 1
        elif is_read(case.path, data, read, case.damage):
            done.survived.append(case)
        else:
            done.unread[case.damage] += 1
    return done


def sabotages() -> Iterator[tuple[Slide, Data]]:
    """Each slide with its sabotaged capture, made with the model and the server of the committed deck."""
    asked = with_the_decks_own_sources(parser().parse_args([]), ONE_CALL.slides, manifest.read(COMMITTED))
    with Session(find(asked, lambda line: None), lambda line: None, lambda *progress: None) as session:
        for slide in ONE_CALL.slides:
            yield slide, json.loads(to_json(slide.sabotage(committed(slide), session.lab)))


def explained(part: str) -> dict[str, str]:
    """The survivors that are right, each with its reason."""
    return tomllib.loads(EXPLAINED.read_text("utf-8"))[part]


def main() -> int:
    trials = [trial(slide) for slide in ONE_CALL.slides]
    for one, (slide, spoiled) in zip(trials, sabotages(), strict=True):
        one.sabotage = "refused" if refuses(slide, spoiled) else "SURVIVED"
    return report(trials)


def report(trials: list[Trial]) -> int:
    print(f"{'slide':<33}{'sabotage':<10}" + "".join(f"{name:>13}" for name in DAMAGE))
    for one in trials:
        print(f"{one.slide.id:<33}{one.sabotage:<10}" + "".join(f"{one.cell(name):>13}" for name in DAMAGE))
    print("n: damages refused; +n: of what the oracle does not read; !n: survived, for a reason in build/doubt/explained.toml")
    survived = [case.told(one.slide.id) for one in trials for case in one.survived]
    wrong = unexplained(survived, explained("damage"))
    for line in wrong:
        print(line)
    spoiled = [one.sabotage == "refused" for one in trials]
    refused, unread = (sum(sum(getattr(one, name).values()) for one in trials) for name in ("refused", "unread"))
    print(f"{sum(spoiled)} of {len(spoiled)} sabotages refused")
    print(f"{refused:,} damages refused, {len(survived)} survived for a reason, {unread:,} of what is not read")
    return 1 if wrong or not all(spoiled) else 0


def unexplained(survived: Iterable[str], reasons: dict[str, str]) -> list[str]:
    """What survived without a reason, and the reasons that nothing needs."""
    found = set(survived)
    wrong = [f"SURVIVED: {name}" for name in sorted(found - reasons.keys())]
    return wrong + [f"explained, and refused: {name}" for name in sorted(reasons.keys() - found)]


if __name__ == "__main__":
    sys.exit(main())
