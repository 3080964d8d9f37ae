"""The TCPStore's tries and hosts (formats.md A7). Its failures are collateral and stand in the catalogue."""

from __future__ import annotations

from correlator.core.vocabulary import Context
from correlator.parsers.base import Dialect, LinePattern

_C10D = r"(?:\[c10d\] )?"

DIALECT = Dialect(
    name="c10d_store",
    title="PyTorch TCPStore and its sockets",
    source="formats.md A7",
    patterns=(
        LinePattern(
            id="c10d.store_poll_timeout",
            event_name=Context.MESSAGE,
            regex=_C10D + r"waitForInput: poll for socket SocketImpl\(fd=\d+, addr=\[(?P<own_host>[^\]\n]*)\]:\d+, "
            r"remote=\[(?P<remote>[^\]\n]*)\]:(?P<remote_port>\d+)\) returned 0, likely a timeout",
            samples=(
                "[W1130 01:02:05.1 socket.cpp:472] [c10d] waitForInput: poll for socket SocketImpl(fd=13, addr=[node04]:60950, "
                "remote=[node01]:29500) returned 0, likely a timeout",
            ),
            lookalikes=("waitForInput: poll for keyboard returned 0, likely a timeout",),
            source="formats.md A7",
        ),
        LinePattern(
            id="c10d.store_connect_failed",
            event_name=Context.MESSAGE,
            regex=_C10D + r"The client socket has failed to connect to \[(?P<remote>[^\]\n]*)\]:(?P<remote_port>\d+) "
            r"\((?P<reason>[^)\n]*)\)",
            samples=(
                "[W1130 01:00:05.000000001 socket.cpp:464] [c10d] The client socket has failed to connect to [node01]:29500 "
                "(errno: 111 - Connection refused).",
                "[W socket.cpp:663] [c10d] The client socket has failed to connect to [::ffff:10.0.0.1]:29500 (errno: 110 - "
                "Connection timed out).",
            ),
            lookalikes=(
                "[E socket.cpp:922] [c10d] The client socket has timed out after 900000ms while trying to connect to "
                "(node01, 29500).",
            ),
            priority=40,
            source="formats.md A7: retried, so no failure by itself",
        ),
        LinePattern(
            id="c10d.store_connect_retry",
            event_name=Context.MESSAGE,
            regex=_C10D + r"TCP client failed to connect/validate to host (?P<remote>[^\n]+):(?P<remote_port>\d+) - "
            r"retrying \(try=(?P<try>\d+)",
            samples=(
                "[W1130 01:02:03.1 TCPStore.cpp:340] [c10d] TCP client failed to connect/validate to host node01:29500 - retrying "
                "(try=1, timeout=600000ms, delay=912ms): Connection reset by peer",
            ),
            lookalikes=("TCP client failed to connect to host node01:29500",),
            priority=40,
            source="formats.md A7",
        ),
        LinePattern(
            id="elastic.store_host",
            event_name=Context.MESSAGE,
            regex=r"Process (?P<process_pid>\d+) hosts the TCP store for the C10d rendezvous backend",
            samples=(
                "I1130 01:02:03.123000 12345 torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py:166] Process 12345 "
                "hosts the TCP store for the C10d rendezvous backend.",
            ),
            lookalikes=("Process 12345 hosts the metrics store.",),
            source="torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py",
        ),
    ),
)
