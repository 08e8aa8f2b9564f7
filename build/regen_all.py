#!/usr/bin/env python3
"""The one command: flags in, plan, run, table out. What each flag does and what the exit codes mean: `--help`."""

import sys
import traceback
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python adds it by itself only where PYTHONSAFEPATH is not set
    from decks import ONE_CALL
    from pipeline import streams, timings  # timings first of all: the run's clock starts when it is imported

    streams.stop_early()

from collections.abc import Sequence

try:
    from decks import ONE_CALL
    from pipeline import streams, timings
    from pipeline.errors import DeckError, MissingPart
    from pipeline.keys import without_keys
    from pipeline.run.console import Screen
    from pipeline.run.flags import parser
    from pipeline.run.quick import act
except ModuleNotFoundError as error:
    print(f"error: {error.name} is not installed: run `make deck`, or use its .venv/bin/python", file=sys.stderr)
    sys.exit(3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags, do what they ask, turn every error into one line and an exit code."""
    timings.add("imports", "the command", timings.total())
    streams.steady()
    given = sys.argv[1:] if arguments is None else arguments
    screen, debug = Screen(quiet="--quiet" in given, as_json="--json" in given), "--debug" in given
    try:
        streams.hear_interrupts()
        code = act(parser().parse_args(given), screen, ONE_CALL)
    except KeyboardInterrupt as stop:
        code = screen.error("interrupted; the last good deck is untouched", stop.args[0] if stop.args else 130)
    except DeckError as error:
        code = failed(debug, screen, error, str(error), error.exit_code)
    except ImportError as error:
        line = f"{error.name or error} cannot be imported: pip install -r build/requirements.txt with this Python"
        code = failed(debug, screen, error, line, MissingPart.exit_code)
    except OSError as error:
        line = f"{error.strerror or error} ({error.filename or 'no file named'}); the last good deck is untouched"
        code = failed(debug, screen, error, line, MissingPart.exit_code)
    except Exception as error:
        line = f"{type(error).__name__}: {error} (run again with --debug for the traceback)"
        code = failed(debug, screen, error, line, 1)
    if "--timings" in given:
        screen.timings(timings.spent(), timings.total())
    return screen.flush(code)


def failed(debug: bool, screen: Screen, error: BaseException, line: str, code: int) -> int:
    if debug:
        print(without_keys("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        return code
    return screen.error(line, code)


if __name__ == "__main__":
    sys.exit(main())
