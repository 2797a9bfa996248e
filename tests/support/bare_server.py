"""A server without any flag but those given, and with its own environment."""

import os
import subprocess

from conftest import LOGS
from serving import BINARY, Server, free_port


class BareServer(Server):
    """REPRISE_PORT is a free one, unless the environment given has another."""

    def __init__(self, environment: dict[str, str], *flags: str, log: str):
        LOGS.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.log = LOGS / f"{log}.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [str(BINARY), "serve", *flags], stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, "REPRISE_PORT": str(self.port),
                     **environment})
