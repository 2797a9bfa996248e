"""/metrics as numbers."""

import re
import time
from collections.abc import Callable

import httpx

from serving import Server


SERIES = r'[a-zA-Z_:][\w:]*(?:\{(?:\w+="[^"\n]*",?)*\})?'  # name, labels


def read(server: Server) -> dict[str, float]:
    """Metric with its labels, as written -> value."""
    text = httpx.get(server.url + "/metrics", timeout=10).text
    return {name: float(value) for name, value in re.findall(
        rf"^({SERIES})\s+(\S+)", text, re.MULTILINE)}


def total(server: Server, name: str) -> float:
    """The sum over all labels. A metric that is not there is an error."""
    found = [v for k, v in read(server).items() if k.split("{")[0] == name]
    assert found, f"/metrics has no {name}"
    return sum(found)


def wait_for(condition: Callable[[], bool], within_s: float) -> bool:
    """Polls until the condition holds; False when time is over."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
