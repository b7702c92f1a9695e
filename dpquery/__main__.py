"""The command line as a module: `python -m dpquery`."""

from __future__ import annotations

import gc
import sys

from dpquery.errors import INTERRUPTED


def main() -> None:
    """The entry point `dpquery`: interrupted while it loads, it ends as quietly as later."""
    # What loads stays: to look for garbage among it, again and again, takes a tenth of a start.
    gc.set_threshold(50_000, 20, 20)
    try:
        from dpquery.frontends.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
