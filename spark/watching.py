"""How far a job is: a bar for people, a line for each step in the log of a cron."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from spark.compact import Progress, Watch


@contextmanager
def watching() -> Iterator[Watch]:
    if not sys.stderr.isatty():
        yield _line
        return
    with tqdm(desc="compacting", unit=" chunks", leave=False) as bar:

        def show(progress: Progress) -> None:
            bar.total = progress.total
            bar.set_postfix_str(f"batch {progress.batch} of {progress.batches}")
            bar.update(progress.done - bar.n)

        yield show


def _line(progress: Progress) -> None:
    if progress.tasks:
        place = f"batch {progress.batch} of {progress.batches}"
        print(f"ds-spark: {place}: {progress.tasks} chunks begun", file=sys.stderr, flush=True)
