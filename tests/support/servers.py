"""The servers of the tests: each says how it has to end."""

from pathlib import Path
from typing import Any

from serving import BINARY, ROOT, Server
from support import sanitizers

LOGS = ROOT / "build" / "test-logs" / BINARY.parent.name
TINY = ROOT / "tests" / "fixtures" / "llama" / "hf"


class TestServer(Server):
    __test__ = False  # not a class of tests
    started: list["TestServer"] = []

    def __init__(self, model: Path, *flags: str, log: Path, status: int,
                 **more: Any):
        super().__init__(model, *flags, log=log, **more)
        self.status = status
        self.started.append(self)

    @classmethod
    def take_ended(cls) -> list["TestServer"]:
        """Those that ended since the last call."""
        ended = [s for s in cls.started if s.process.poll() is not None]
        for server in ended:
            cls.started.remove(server)
        return ended

    def check_end(self) -> None:
        """Ends it if it runs; the status has to be the promised one."""
        got = self.stop()
        sanitizers.check_reports(self.log.parent)
        assert got == self.status, (
            f"the server ended with {got}, not {self.status}:\n"
            + self.log_tail())


def start(model: Path, *flags: str, log: str, status: int = 0,
          binary: Path = BINARY, **more: Any) -> TestServer:
    """A server that has to end with that status."""
    assert binary.exists(), f"{binary} is missing: run `make build`"
    return TestServer(model, "--dtype", "float32", *flags, binary=binary,
                      log=LOGS / f"{log}.log", status=status, **more)
