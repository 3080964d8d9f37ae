"""The command line: a module for each command, which declares arguments, calls the library and prints."""

from __future__ import annotations

import os

from correlator.core.threads import ONE_THREAD

for _variable, _value in ONE_THREAD.items():  # before anything imports numpy
    os.environ.setdefault(_variable, _value)
