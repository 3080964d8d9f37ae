"""Attempts: several nodes' logs in one file, undated failures, and ranks that introduce themselves again."""

from __future__ import annotations

import json
from typing import Any

from correlator.core.event import Event
from correlator.core.vocabulary import FileKind
from correlator.identity import Identified, identify
from tests.helpers_events import event, log, report, table

SIZE = 2


def run(parts: list) -> Identified:
    files = [file for file, _ in parts]
    return identify(table(parts), files, [report(file) for file in files])


def agent(first: int, node_rank: int, pid: int, at: float, host: str | None = None, attempt: int = 0) -> list[Event]:
    """The life of an agent: start, rendezvous, workers, and the signal that ends it."""
    ranks = list(range(node_rank * SIZE, node_rank * SIZE + SIZE))
    facts: dict[str, Any] = {"global_ranks": json.dumps(ranks), "local_ranks": "[0, 1]"}
    return [
        event("launcher_started", first, seconds=at, process_pid=pid),
        event(
            "rendezvous_complete",
            first + 1,
            seconds=at + 1,
            process_pid=pid,
            node_rank=node_rank,
            attempt=attempt,
            attributes=facts,
        ),
        event("progress", first + 2, seconds=at + 5, local_rank=1, step=3),
        event("agent_signalled", first + 3, seconds=at + 9, process_pid=pid, host_name=host),
    ]


def attempts_of(events: list[Event], kind: FileKind = FileKind.NODE_LOG) -> list[int]:
    return run([(log("all.log", kind), events)]).events["attempt"].to_list()


def test_logs_of_nodes_one_after_the_other_are_one_attempt() -> None:
    """cat node*.log: the second agent has another group rank and ran at the same time."""
    assert attempts_of([*agent(1, 0, 11, 0.0), *agent(5, 1, 22, 0.5)]) == [0] * 8


def test_an_agent_that_starts_again_is_the_next_attempt() -> None:
    """The same group rank, later."""
    assert attempts_of([*agent(1, 0, 11, 0.0), *agent(5, 0, 22, 60.0)]) == [0] * 4 + [1] * 4


def test_a_job_started_again_may_shuffle_group_ranks() -> None:
    """Another group rank, but after the first agent had ended, and nothing says that the host is another."""
    assert attempts_of([*agent(1, 0, 11, 0.0), *agent(5, 1, 22, 60.0)]) == [0] * 4 + [1] * 4


def test_the_same_host_again_is_the_next_attempt_whatever_its_clock_says() -> None:
    """A clock that was set back does not make one agent two."""
    events = [*agent(1, 0, 11, 0.0, host="node01"), *agent(5, 1, 22, -60.0, host="node01")]
    assert attempts_of(events) == [0] * 4 + [1] * 4


def test_the_lines_of_joined_logs_belong_to_their_own_node() -> None:
    """Each part is on the host that it names; [default1]: means another rank in each."""
    events = [*agent(1, 0, 11, 0.0, host="node01"), *agent(5, 1, 22, 0.5, host="node02")]
    result = run([(log("all.log", FileKind.NODE_LOG), events)]).events
    places = result.select("line_number", "rank", "host_name").rows()
    assert (3, 1, "node01") in places
    assert (7, 3, "node02") in places


def restarted(*fault: Event) -> Identified:
    """A node's agent restarts its workers once; rank 1's own file carries the fault."""
    one = agent(1, 0, 11, 0.0)[:2]
    failed = event("worker_failed", 5, seconds=9.0, local_rank=1, process_pid=12, exit_code=1)
    two = agent(20, 0, 11, 60.0, attempt=1)[1:3]
    return run(
        [
            (log("agent_node01.log", FileKind.LAUNCHER_LOG, node="node01"), [*one, failed, *two]),
            (log("rank_1.log", FileKind.RANK_LOG, rank=1), list(fault)),
        ]
    )


def test_an_undated_failure_belongs_to_the_attempt_in_which_its_agent_saw_it() -> None:
    """A bare traceback in the rank's file, which has no mark of attempts."""
    result = restarted(event("python_exception", 2))
    assert result.events["attempt"].to_list()[-1] == 0
    assert result.topology.attempts == 2


def test_a_dated_line_of_a_rank_is_placed_on_its_nodes_clock() -> None:
    """The agent's table says where rank 1 ran, though no line of its file does."""
    result = restarted(event("message", 1, seconds=5.0), event("message", 2, seconds=62.0))
    assert result.events["attempt"].to_list()[-2:] == [0, 1]


def test_a_second_kind_of_introduction_is_no_restart() -> None:
    """A process prints several start-up lines; only the same line again, after a failure, is a new process."""
    hello, ready = ({"signature": "identity.hello"}, {"signature": "identity.ready"})
    events = [
        event("rank_identity", 1, rank=1, **hello),
        event("store_lost", 2),
        event("rank_identity", 3, rank=1, **ready),
    ]
    assert run([(log("rank_1.log", FileKind.RANK_LOG, rank=1), events)]).topology.attempts == 1
    events += [event("python_exception", 4), event("rank_identity", 5, rank=1, **hello)]
    assert run([(log("rank_1.log", FileKind.RANK_LOG, rank=1), events)]).events["attempt"].to_list() == [0, 0, 0, 0, 1]


def test_guessed_ranks_end_at_the_size_of_the_run_and_at_the_lines() -> None:
    """4.log in a run of two ranks, or 1.log whose line names rank 0: the numbers of the series count files."""

    def ranks(numbers: list[int], **fields: Any) -> list[int | None]:
        parts = [
            (log(f"{n}.log", FileKind.RANK_LOG, rank=n, rank_guessed=True), [event("message", 1)]) for n in numbers
        ]
        parts[-1][1].append(event("rank_identity", 2, world_size=2, **fields))
        return run(parts).events["rank"].to_list()[: len(numbers)]

    assert ranks([0, 1]) == [0, 1]
    assert ranks([0, 4]) == [None, None]
    assert ranks([0, 1], rank=0) == [None, 0]
