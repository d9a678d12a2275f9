"""`python -m nightcrew`: the command line where no console script is on PATH."""

from nightcrew.cli import main

raise SystemExit(main())
