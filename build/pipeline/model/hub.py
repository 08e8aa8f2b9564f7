"""Files of a model brought from the hub into the local Hugging Face cache."""

import os
from pathlib import Path
from typing import Any

from pipeline.errors import MissingPart
from pipeline.model.load import Progress, Say, one_line


def hub_name() -> str:
    """The hub, by its address where that is not the usual one."""
    from huggingface_hub import constants

    return f"the hub at {constants.ENDPOINT}" if "HF_ENDPOINT" in os.environ else "the hub"


def fetch(repo: str, revision: str, names: tuple[str, ...], say: Say, progress: Progress) -> Path:
    """Bring files of one revision into the Hugging Face cache; what is there already is kept, a cut-off file resumed."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    say(f"fetching {repo} from {hub_name()} into the local Hugging Face cache")
    for name in names:
        try:
            path = hf_hub_download(repo, name, revision=revision, tqdm_class=_bar(f"{repo} {name}", progress))
        except EntryNotFoundError as error:
            if name in ("tokenizer_config.json", "generation_config.json") and not isinstance(error, OSError):
                continue
            raise MissingPart(_not_fetched(repo, name, error)) from error
        except Exception as error:  # the network, the disk, the hub: all end the same way
            raise MissingPart(_not_fetched(repo, name, error)) from error
    return Path(path).parent


def _not_fetched(repo: str, name: str, error: Exception) -> str:
    return (
        f"{name} of {repo} could not be fetched from {hub_name()} ({one_line(error)}): "
        "run again to go on where it stopped, or take the embedded model with --model smollm2"
    )


def _bar(label: str, progress: Progress) -> type:
    """A progress class for the hub's downloads that draws nothing and hands the numbers on."""
    from tqdm.std import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            self.done, self.size = settings.get("initial") or 0, settings.get("total") or 0
            super().__init__(*args, **{**settings, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            progress(label, self.done, self.size)

    return Bar
