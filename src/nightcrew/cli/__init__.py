"""The command line: a face over `app`, with no power of its own. One module a verb; the table of verbs is `verbs`."""

import gc
import os
import sys

STDERR = 2


def main() -> int:
    """The console entry; gives the exit code (0 done, 1 blocked or failed, 2 a mistake, 3 waiting, 70 our bug, 130 Ctrl-C)."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass  # a stream that was closed: no file of ours may take its place
    os.close(spare)
    sys.stdout = sys.stdout or os.fdopen(STDERR - 1, "w")
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w")
    if sys.argv[1:] == ["--version"]:
        from nightcrew import __version__  # noqa: PLC0415 - asked for by scripts in loops: nothing else is loaded

        sys.stdout.write(f"nightcrew {__version__}\n")
        return 0
    gc.disable()  # what is imported stays; collecting in between costs a tenth of the start (`reading.screen` turns it on again)
    from nightcrew.cli.verbs import run  # noqa: PLC0415 - see above

    return run(sys.argv[1:])
