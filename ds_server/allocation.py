"""How our processes, and the engine, treat memory that they have freed."""

import os

MIB = 1024 * 1024

# Bodies of some megabytes come and go. By default the C library gives what one leaves back to
# the kernel and asks for it anew, page by page, for the next.
_KEPT = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * MIB),
    "MALLOC_TRIM_THRESHOLD_": str(64 * MIB),
}


def environment() -> dict[str, str]:
    """For a process to start with; what its user has set is left alone."""
    return {**_KEPT, **os.environ}
