"""Lets a topic run as a script: Python looks beside the script first, finds this module there, and is led to the pipeline."""

import importlib
import sys
from pathlib import Path

if __name__ == "pipeline":  # not as topics.pipeline: then the pipeline was found already
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    del sys.modules["pipeline"]
    importlib.import_module("pipeline")
