"""/metrics: each family has its name, its type, and a value that moves when it
should. docs/metrics.md lists the same ones."""

import json
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from conftest import TINY, start
from serving import ROOT, Server
from support import http, metrics
from support.endless_model import endless_model

STATE_MEMORY_KIB = 4700
POISON = 77  # a token whose row of the embedding is not a number
BODY = {"prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}


def poison(file: Path) -> None:
    """Makes one row of the embedding, in bfloat16, not a number."""
    data = bytearray(file.read_bytes())
    start_of_data = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start_of_data])["model.embed_tokens.weight"]
    assert entry["dtype"] == "BF16"
    width = 2 * entry["shape"][1]
    at = start_of_data + entry["data_offsets"][0] + POISON * width
    data[at:at + width] = b"\xc0\x7f" * (width // 2)
    file.write_bytes(data)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The tiny model with few blocks."""
    with start(TINY, "-c", "1024", "-np", "2", "--state-memory",
               f"{STATE_MEMORY_KIB}KiB", log="metrics") as running:
        running.wait_ready()
        yield running


def families(server: Server) -> dict[str, str]:
    """Name -> type."""
    text = httpx.get(server.url + "/metrics", timeout=10).text
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))


class Watch:
    """How far a value has moved since."""

    def __init__(self, server: Server):
        self.server = server
        self.before = metrics.read(server)

    def moved(self, name: str) -> float:
        return (metrics.read(self.server).get(name, 0.0)
                - self.before.get(name, 0.0))

    def reaches(self, name: str, least: float) -> bool:
        return metrics.wait_for(lambda: self.moved(name) >= least, 10)


def ask(server: Server, **more: object) -> httpx.Response:
    return http.post(server, http.COMPLETIONS, {**BODY, **more})


def test_the_document_lists_the_page(server: Server):
    ask(server)
    text = (ROOT / "docs" / "metrics.md").read_text()
    listed = dict(re.findall(r"^\| `(reprise_\w+)` \| (\w+) \|", text, re.M))
    assert listed == families(server)


def test_what_the_program_is(server: Server):
    page = metrics.read(server)
    (info,) = [k for k in page if k.startswith("reprise_build_info{")]
    assert re.search(r'version="\d+\.\d+\.\d+"', info) and page[info] == 1
    assert page["reprise_ready"] == 1
    assert page["reprise_block_bytes"] > 0
    watch = Watch(server)
    time.sleep(0.05)
    assert 0.05 <= watch.moved("reprise_uptime_seconds") < 5
    resident = metrics.total(server, "reprise_resident_bytes")
    with open(f"/proc/{server.pid}/statm") as f:
        pages = int(f.read().split()[1])
    assert resident == pytest.approx(pages * 4096, rel=0.2)


def test_requests_by_endpoint_and_status(server: Server):
    watch = Watch(server)
    ask(server)
    http.post(server, http.COMPLETIONS, b"{")
    httpx.get(server.url + "/nothing")
    httpx.get(server.url + "/health")
    for endpoint, status in (("/v1/completions", 200), ("/v1/completions", 400),
                             ("other", 404), ("/health", 200)):
        name = f'reprise_requests_total{{endpoint="{endpoint}",status="{status}"}}'
        assert watch.moved(name) == 1, name


def test_tokens(server: Server):
    watch = Watch(server)
    prompt = list(range(100, 200))
    ask(server, prompt=prompt, max_tokens=3)
    assert watch.moved("reprise_prompt_tokens_total") == 100
    assert watch.moved("reprise_generated_tokens_total") == 3
    assert watch.moved("reprise_evaluated_tokens_total") == 102
    assert watch.moved('reprise_cached_tokens_total{tier="memory"}') == 0
    assert watch.moved("reprise_steps_total") >= 3
    ask(server, prompt=prompt, max_tokens=1)
    assert watch.moved('reprise_cached_tokens_total{tier="memory"}') == 99


def test_cache_lookups_by_reason(server: Server):
    def lookup(reason: str, tokens: int, **more: object) -> None:
        watch = Watch(server)
        assert ask(server, max_tokens=1, **more).status_code == 200
        for name, moved in (("lookups", 1), ("missed_tokens", tokens)):
            name = f'reprise_cache_{name}_total{{reason="{reason}"}}'
            assert watch.moved(name) == moved, name

    prompt = list(range(200, 300))
    lookup("diverged", 100, prompt=prompt)
    lookup("none", 1, prompt=prompt)
    lookup("disabled", 100, prompt=prompt, cache_prompt=False)


def test_steps(server: Server):
    watch = Watch(server)
    started = time.monotonic()
    ask(server, prompt=list(range(300, 370)), max_tokens=4)
    took = time.monotonic() - started
    steps = watch.moved("reprise_steps_total")
    assert 4 <= steps <= 6
    for name in ("seconds", "rows", "tokens"):
        assert watch.moved(f"reprise_step_{name}_count") == steps
    assert 0 < watch.moved("reprise_step_seconds_sum") <= took
    assert watch.moved("reprise_step_rows_sum") == steps, "one request in each"
    assert watch.moved("reprise_step_tokens_sum") == 70 + 3
    assert watch.moved('reprise_step_rows_bucket{le="1"}') == steps


def test_latencies(server: Server):
    watch = Watch(server)
    started = time.monotonic()
    ask(server, max_tokens=5)
    took = time.monotonic() - started
    for name, count in (("reprise_queue_seconds", 1),
                        ("reprise_time_to_first_token_seconds", 1),
                        ("reprise_inter_token_seconds", 4)):
        assert families(server)[name] == "histogram"
        assert watch.moved(name + "_count") == count
        assert 0 < watch.moved(name + "_sum") <= took
        assert watch.moved(name + '_bucket{le="+Inf"}') == count


def test_queue_and_blocks(server: Server):
    """Three requests, two at a time: one waits and the others hold blocks."""
    seen: dict[str, float] = {}
    waited = Watch(server)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, server, prompt=[20 + i] * 10, max_tokens=300)
                 for i in range(3)]
        while not all(a.done() for a in asked):
            for name, value in metrics.read(server).items():
                seen[name] = max(seen.get(name, 0), value)
    assert all(a.result().status_code == 200 for a in asked)
    assert seen["reprise_requests_running"] == 2
    assert seen["reprise_requests_waiting"] == 1
    assert seen['reprise_blocks{state="held"}'] >= 2
    assert waited.moved("reprise_queue_seconds_sum") > 0.01
    page = metrics.read(server)
    assert page["reprise_requests_running"] == 0
    assert page["reprise_requests_waiting"] == 0
    assert page['reprise_blocks{state="held"}'] == 0
    assert page['reprise_blocks{state="cached"}'] > 0
    blocks = [page[f'reprise_blocks{{state="{s}"}}']
              for s in ("free", "cached", "held")]
    assert (sum(blocks) * page["reprise_block_bytes"]
            <= STATE_MEMORY_KIB << 10 < (sum(blocks) + 1) * page["reprise_block_bytes"])


def test_evictions_and_preemptions(server: Server):
    watch = Watch(server)
    for first in range(20, 30):
        ask(server, prompt=[first] * 600, max_tokens=1)
    assert watch.moved("reprise_blocks_evicted_total") > 0
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, server, prompt=[40 + i] * 300, max_tokens=700)
                 for i in range(2)]
    assert all(a.result().status_code == 200 for a in asked)
    assert watch.moved("reprise_preemptions_total") > 0


@pytest.mark.real_model
def test_failed_steps(serve: Callable[..., Server], tmp_path: Path):
    model = tmp_path / "poisoned"
    shutil.copytree(TINY, model)
    poison(model / "model.safetensors")
    server = serve(model, "-c", "1024")
    watch = Watch(server)
    ask(server, prompt=[1, 2], max_tokens=1)
    assert watch.moved("reprise_steps_failed_total") == 0
    http.refused(ask(server, prompt=[POISON]), 500)
    # Twice where it stands, then once more from nothing.
    assert watch.moved("reprise_steps_failed_total") == 3


def test_disconnects_and_connections(server: Server):
    watch = Watch(server)
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        assert watch.reaches("reprise_connections", 1)
        body = json.dumps({**BODY, "max_tokens": 1000, "stream": True}).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        assert s.recv(10)
    assert watch.reaches("reprise_disconnects_total", 1)
    assert metrics.wait_for(lambda: watch.moved("reprise_connections") <= 0, 10)


def test_bodies_in_flight(server: Server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 500\r\n\r\n" + b" " * 123)
        assert metrics.wait_for(
            lambda: metrics.total(server, "reprise_body_bytes") == 123, 5)
    assert metrics.wait_for(
        lambda: metrics.total(server, "reprise_body_bytes") == 0, 5)


def test_it_is_there_while_loading(tmp_path: Path):
    """Without what only the engine knows."""
    with start(endless_model(tmp_path), log="metrics-loading") as server:
        assert metrics.wait_for(lambda: server.health() == 503, 10)
        assert "reprise_resident_bytes" in families(server)
        assert "reprise_steps_total" not in families(server)
