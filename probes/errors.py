"""The errors of gpudiag: all that a person may read, each saying what to do next."""


class GpudiagError(Exception):
    """Something a person must be told; `exit_code` is what the command ends with."""

    exit_code = 3


class UsageError(GpudiagError):
    """The call, the configuration or the input file is wrong: mend it and call again."""

    exit_code = 2


class Partly(GpudiagError):
    """Some sources of a probe gave nothing: what it gave before this counts all the same."""


class Unavailable(GpudiagError):
    """The source is not on this machine (no InfiniBand, no driver): absent, not a failure."""
