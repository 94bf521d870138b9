"""What the operating system allows."""

import resource


def allow_many_connections() -> None:
    """For us and for the servers, which inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
