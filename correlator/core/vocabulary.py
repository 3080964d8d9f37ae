"""The closed vocabularies: what a fault, a role, a kind of file or an event may be called.

Fault codes, classes and collateral kinds are the published labels of the diagnosis contract; renaming one breaks users.
"""

from __future__ import annotations

from enum import StrEnum


class FaultClass(StrEnum):
    """Who has to act: the layer that a fault belongs to."""

    SOFTWARE = "software"
    HARDWARE = "hardware"
    NETWORK = "network"
    STORAGE = "storage"
    CONFIGURATION = "configuration"
    EXTERNAL = "external"
    UNKNOWN = "unknown"


class FaultCode(StrEnum):
    """Faults that can start a failure."""

    CUDA_OOM = "cuda_oom"
    CUDA_ILLEGAL_ADDRESS = "cuda_illegal_address"
    CUDA_DEVICE_ASSERT = "cuda_device_assert"
    CUDA_LAUNCH_FAILURE = "cuda_launch_failure"
    CUDA_MISALIGNED_ADDRESS = "cuda_misaligned_address"
    CUDA_NO_KERNEL_IMAGE = "cuda_no_kernel_image"
    CUDA_DRIVER_INSUFFICIENT = "cuda_driver_insufficient"
    CUDA_STREAM_CAPTURE = "cuda_stream_capture"
    CUDA_INVALID_DEVICE = "cuda_invalid_device"
    CUDA_INVALID_CONFIGURATION = "cuda_invalid_configuration"
    CUDA_INITIALIZATION = "cuda_initialization"
    CUDA_ECC_UNCORRECTABLE = "cuda_ecc_uncorrectable"
    CUBLAS_CUDNN_FAILURE = "cublas_cudnn_failure"
    NATIVE_SEGFAULT = "native_segfault"
    NATIVE_ABORT = "native_abort"
    NATIVE_BUS_ERROR = "native_bus_error"
    ILLEGAL_INSTRUCTION = "illegal_instruction"
    GPU_OFF_BUS = "gpu_off_bus"
    GPU_ECC_DBE = "gpu_ecc_dbe"
    GPU_NVLINK = "gpu_nvlink"
    GPU_GSP_TIMEOUT = "gpu_gsp_timeout"
    GPU_MMU_FAULT = "gpu_mmu_fault"
    GPU_THERMAL = "gpu_thermal"
    NODE_LOST = "node_lost"
    HOST_OOM_KILL = "host_oom_kill"
    PROCESS_KILLED = "process_killed"
    PREEMPTED = "preempted"
    DISK_FULL = "disk_full"
    STORAGE_IO = "storage_io"
    SHM_EXHAUSTED = "shm_exhausted"
    FILE_DESCRIPTOR_LIMIT = "file_descriptor_limit"
    DATALOADER_WORKER_DIED = "dataloader_worker_died"
    COLLECTIVE_MISMATCH = "collective_mismatch"
    RANK_STALLED = "rank_stalled"
    NETWORK_FAULT = "network_fault"
    NCCL_INIT_FAILURE = "nccl_init_failure"
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    NCCL_INTERNAL_ERROR = "nccl_internal_error"
    PYTHON_EXCEPTION = "python_exception"
    IMPORT_ERROR = "import_error"
    ASSERTION_FAILURE = "assertion_failure"
    NAN_LOSS = "nan_loss"
    CHECKPOINT_SAVE_FAILURE = "checkpoint_save_failure"
    CHECKPOINT_LOAD_FAILURE = "checkpoint_load_failure"
    CONFIG_ERROR = "config_error"
    DATA_ERROR = "data_error"
    SILENT_EXIT = "silent_exit"


_CLASS_MEMBERS: dict[FaultClass, str] = {
    FaultClass.SOFTWARE: (
        "cuda_oom cuda_illegal_address cuda_device_assert cuda_misaligned_address cuda_stream_capture "
        "cuda_invalid_configuration native_segfault native_abort gpu_mmu_fault host_oom_kill dataloader_worker_died "
        "collective_mismatch rank_stalled python_exception assertion_failure nan_loss checkpoint_save_failure "
        "checkpoint_load_failure data_error"
    ),
    FaultClass.HARDWARE: (
        "cuda_ecc_uncorrectable gpu_off_bus gpu_ecc_dbe gpu_nvlink gpu_gsp_timeout gpu_thermal node_lost"
    ),
    FaultClass.NETWORK: "network_fault",
    FaultClass.STORAGE: "disk_full storage_io",
    FaultClass.CONFIGURATION: (
        "cuda_no_kernel_image cuda_driver_insufficient cuda_invalid_device cuda_initialization native_bus_error "
        "illegal_instruction shm_exhausted file_descriptor_limit nccl_init_failure rendezvous_timeout import_error "
        "config_error"
    ),
    FaultClass.EXTERNAL: "process_killed preempted",
    FaultClass.UNKNOWN: "cuda_launch_failure cublas_cudnn_failure nccl_internal_error silent_exit",
}
FAULT_CLASS: dict[FaultCode, FaultClass] = {
    FaultCode(code): fault_class for fault_class, codes in _CLASS_MEMBERS.items() for code in codes.split()
}
"""The class of each fault code (the published contract); total over FaultCode."""


class CollateralKind(StrEnum):
    """How a rank that did not start the failure was dragged into it."""

    COLLECTIVE_TIMEOUT = "collective_timeout"
    REMOTE_PEER_LOST = "remote_peer_lost"
    STORE_LOST = "store_lost"
    TERMINATED_BY_LAUNCHER = "terminated_by_launcher"
    LAUNCHER_REPORT = "launcher_report"
    CONTEXT_POISONED = "context_poisoned"
    SECONDARY_ABORT = "secondary_abort"
    HEARTBEAT_EXIT = "heartbeat_exit"
    SCHEDULER_CANCEL = "scheduler_cancel"
    ACTOR_DIED = "actor_died"
    SILENT_EXIT = "silent_exit"


class Role(StrEnum):
    """What an event can be in a failure. A parser says what a line means, never whether it was the cause."""

    INITIATING = "initiating"
    COLLATERAL = "collateral"
    CONTEXT = "context"


class Context(StrEnum):
    """Event names of role `context`: facts that place, time or order the faults."""

    RANK_IDENTITY = "rank_identity"  # rank <-> local rank, host, pid, GPU, world size
    NCCL_COMM_INIT = "nccl_comm_init"  # attributes: comm_id, nranks, group_rank, phase=start|complete|abort|destroy
    NODE_ADDRESS = "node_address"  # host <-> IP address (attribute ip)
    GPU_IDENTITY = "gpu_identity"  # PCI id <-> UUID
    RENDEZVOUS_COMPLETE = "rendezvous_complete"  # attributes: global_ranks, local_ranks, group_rank, master_addr
    RENDEZVOUS_STARTED = "rendezvous_started"
    POD_STATUS = "pod_status"  # attributes: pod, node, status, ip, restarts
    PROCESS_GROUP = "process_group"  # attributes: members (JSON list of global ranks), description
    LAUNCHER_STARTED = "launcher_started"
    LAUNCHER_SPAWN = "launcher_spawn"  # pid <-> local_rank
    ATTEMPT_STARTED = "attempt_started"
    RUN_CONFIG = "run_config"
    PROGRESS = "progress"  # step (and loss)
    CHECKPOINT_SAVE_STARTED = "checkpoint_save_started"  # attributes: checkpoint
    CHECKPOINT_SAVED = "checkpoint_saved"
    CHECKPOINT_LOAD_STARTED = "checkpoint_load_started"
    CHECKPOINT_LOADED = "checkpoint_loaded"
    EVALUATION = "evaluation"
    PHASE = "phase"  # attributes: phase
    TRAINING_FINISHED = "training_finished"
    PROCESS_EXIT_CLEAN = "process_exit_clean"
    WORK_STATUS = "work_status"  # collective_seq failed; attributes: last_enqueued, last_completed, pg description
    DUMP_SIGNAL = "dump_signal"  # attributes: from_rank | local, last_enqueued, last_completed
    COLLECTIVE_ENTRY = "collective_entry"  # one flight-recorder entry
    FLIGHT_RECORDER_DUMP = "flight_recorder_dump"  # attributes: entries, version, status of each group
    NAMED_MISSING_RANKS = "named_missing_ranks"  # an observer names who did not come; attributes: ranks
    NCCL_WARNING = "nccl_warning"
    WORKER_FAILED = "worker_failed"  # an agent saw a child end: exit_code, local_rank, process_pid
    CHILD_FAILED_ROW = "child_failed_row"  # a row of ChildFailedError; attributes: root, error_file, traceback, host
    WORKER_SIGNALLED = "worker_signalled"  # an agent sends a signal to process_pid; attributes: signal
    AGENT_SIGNALLED = "agent_signalled"  # an agent was itself told to stop; attributes: signal
    TASK_EXIT = "task_exit"  # srun: attributes: nodes, tasks, reason; exit_code
    SCHEDULER_CANCELLED = "scheduler_cancelled"  # attributes: reason, target
    NODE_FAILURE_REPORTED = "node_failure_reported"
    ERROR_FILE = "error_file"  # error.json of a rank: exception and epoch second
    THREAD_STACK = "thread_stack"  # py-spy / faulthandler: attributes: waits_on, user_frame
    KERNEL_BOOT = "kernel_boot"
    CLOCK_STEP = "clock_step"
    XID = "xid"  # an Xid that is no fault by itself (43, 45, 154 ...); attributes: xid
    MESSAGE = "message"  # an unclassified warning or error line kept for its words
    LINE = "line"  # one line as it was printed, recognised or not; only in a timeline of all lines


class FileKind(StrEnum):
    """What a file of the run directory is, decided from its content and its name together."""

    RANK_LOG = "rank_log"  # one rank (or one stream of it)
    NODE_LOG = "node_log"  # all ranks of a node, merged
    CONSOLE_LOG = "console_log"  # all ranks of all nodes, merged
    LAUNCHER_LOG = "launcher_log"  # the agent of one node
    SCHEDULER_LOG = "scheduler_log"  # srun / slurmctld / mpirun
    KERNEL_LOG = "kernel_log"
    NCCL_DEBUG_LOG = "nccl_debug_log"
    FLIGHT_RECORDER = "flight_recorder"
    STACK_DUMP = "stack_dump"
    ERROR_FILE = "error_file"
    POD_LISTING = "pod_listing"
    RAY_LOG = "ray_log"
    TEXT = "text"  # readable text of no known kind; still scanned


class TimeSource(StrEnum):
    """Where the time of an event comes from."""

    EXPLICIT = "explicit"
    INHERITED = "inherited"
    INTERPOLATED = "interpolated"
    NONE = "none"


class Severity(StrEnum):
    """OpenTelemetry severity texts; `SEVERITY_NUMBER` has the numbers."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    FATAL = "FATAL"


SEVERITY_NUMBER: dict[Severity, int] = {
    Severity.TRACE: 1,
    Severity.DEBUG: 5,
    Severity.INFO: 9,
    Severity.WARN: 13,
    Severity.ERROR: 17,
    Severity.FATAL: 21,
}


class VerdictStatus(StrEnum):
    """How the question "who started it" was answered."""

    IDENTIFIED = "identified"
    TIED = "tied"
    UNDETERMINED = "undetermined"
    NO_FAILURE = "no_failure"


class Phase(StrEnum):
    """Where in its life the run was."""

    INIT = "init"
    STEP = "step"
    CHECKPOINT_SAVE = "checkpoint_save"
    CHECKPOINT_LOAD = "checkpoint_load"
    EVALUATION = "evaluation"
    TEARDOWN = "teardown"


class ClockStatus(StrEnum):
    """How far a node's clock estimate can be trusted."""

    ALIGNED = "aligned"
    STALE = "stale"
    NONE = "none"
    STEPPED = "stepped"


class Order(StrEnum):
    """Which of two events came first, as far as the clocks can tell."""

    BEFORE = "before"
    AFTER = "after"
    INDISTINGUISHABLE = "indistinguishable"
