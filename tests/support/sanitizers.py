"""What sanitizers of the programs under test are told, and what they found.
Their reports are files beside the servers' logs, one a process."""

import os
from pathlib import Path

REPORT = "sanitizer-report"
SUPPRESSIONS = Path(__file__).with_name("tsan.supp")
STATUS = 66  # of a process with a finding; no other failure has it


def set_options(logs: Path) -> None:
    """For every process that the tests start; what is set already stands."""
    common = (f"halt_on_error=1:exitcode={STATUS}:print_stacktrace=1"
              f":log_path={logs / REPORT}")
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        os.environ.setdefault(name, common)
    # A server that is told to stop while it loads ends at once, and its loading
    # thread with it: that is no leak.
    os.environ.setdefault(
        "TSAN_OPTIONS",
        f"{common}:report_thread_leaks=0:suppressions={SUPPRESSIONS}")
    reports(logs)  # of an earlier run


def reports(logs: Path) -> list[str]:
    """Those since the last call; each file gets another name."""
    found = []
    for file in sorted(logs.glob(f"{REPORT}.*")):
        found.append(file.read_text(errors="replace"))
        file.rename(file.with_name(f"seen-{file.name}"))
    return found


def check_reports(logs: Path) -> None:
    found = reports(logs)
    assert not found, "\n".join(found)
