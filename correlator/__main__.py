"""`python -m correlator`."""

from __future__ import annotations

from correlator.cli.app import main

if __name__ == "__main__":
    main()
