"""nightcrew that tells its weight: `weighed.py FILE WORD…` is `nightcrew WORD…` and writes the peak of its own memory, in KiB, to FILE."""

import re
import sys
from pathlib import Path

from nightcrew.cli import main


def peak() -> int:
    """The most memory that this process ever had in use (VmHWM), in KiB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


if __name__ == "__main__":
    weight = Path(sys.argv.pop(1))
    code = main()
    weight.write_text(f"{peak()}\n")
    sys.exit(code)
