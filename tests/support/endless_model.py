"""A model that never has been loaded: one of its files is a pipe that nobody
writes to."""

import os
import shutil
from pathlib import Path

from conftest import TINY


def endless_model(folder: Path, file: str = "tokenizer.json") -> Path:
    model = folder / "endless"
    shutil.copytree(TINY, model)
    (model / file).unlink()
    os.mkfifo(model / file)
    return model
