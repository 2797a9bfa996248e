"""B56: with exactly two clients, replies were merged into each other."""

import os
from concurrent.futures import ThreadPoolExecutor

from serving import Server
from support import http

ROUNDS = 2000 if os.environ.get("REPRISE_SOAK") == "1" else 100
SCRIPTS: dict[str, list[str | bytes]] = {
    "A": ["One", " river", " runs", " north", ",", " cold", " and", " deep"],
    "B": ["Two", " roads", " go", " south", ";", " dry", " but", " wide"]}


def test_each_client_gets_exactly_its_text(script):
    server: Server = script(SCRIPTS)

    def ask(prompt: str) -> list[str]:
        return [http.stream_text(http.stream(server, http.COMPLETIONS, {
            "prompt": prompt, "temperature": 0})) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, SCRIPTS)
    assert first == ["".join(SCRIPTS["A"])] * ROUNDS
    assert second == ["".join(SCRIPTS["B"])] * ROUNDS
