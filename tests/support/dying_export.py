"""An export that ends itself, without a word, before each thing in turn that it does to its
directory; what readers see then, and what the next run makes of it.

Executors are left out, so that one process is the whole of a run: `fork` makes a run of it.
"""

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from spark.export.directory import Directory
from spark.export.job import Wish, export
from spark.export.planning import TASK_COST
from spark.export.workforce import OURS
from spark.export.writing import Numbered, Result, Setting, write_all
from spark.options import Bucket

EXIT_CODE = 66
DEEDS = ("replace", "mkdir", "fsync", "unlink", "rmdir")
SMALL = 100_000

Row = dict[str, Any]


class InThisProcess:
    parallelism = 1

    def schema(self, fields: str) -> StructType:
        return OURS

    def write(self, setting: Setting, tasks: Sequence[Sequence[Numbered]]) -> list[Result]:
        return [result for task in tasks for result in write_all(setting, task)]


def run(objects: Path, to: Path, task_cost: int = TASK_COST) -> None:
    wish = Wish(Bucket(objects.as_uri()), Directory(to), task_cost=task_cost)
    summary = export(wish, InThisProcess)
    assert summary.damaged == []


def dying(deed: int, work: Callable[[], None]) -> None:
    """Does the work, but ends before the nth deed."""
    left = deed

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(EXIT_CODE)
            return original(*arguments, **named)

        return do

    for name in DEEDS:
        setattr(os, name, wrapped(getattr(os, name)))
    work()


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def rows_in(folder: Path) -> list[Row]:
    files = sorted(str(path) for path in folder.rglob("*.parquet"))
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: (row["stream"], row["offset"]))


def assert_no_hole(to: Path, whole: Sequence[Row]) -> None:
    """What is there of each stream is its beginning, at least as far as the state says."""
    promised = json.loads((to / "_export" / "state.json").read_text())["streams"]
    seen = rows_in(to)
    for name in {row["stream"] for row in whole}:
        here = [row for row in seen if row["stream"] == name]
        all_of_it = [row for row in whole if row["stream"] == name]
        assert here == all_of_it[: len(here)], name
        reached = promised.get(name, "")
        assert len(here) >= sum(row["offset"] < reached for row in all_of_it), name


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def survives(begun: Path, then: Path, now: Path, deed: int, whole: Sequence[Row]) -> bool:
    """Whether the run ended before it had finished: then the next one dies too, and the one after
    it finishes the work. The bucket has more for them, and they divide it into other files."""
    with copied(begun) as to:
        code = forked(lambda: dying(deed, lambda: run(then, to, SMALL)))
        if code == 0:
            return False
        assert code == EXIT_CODE, code
        assert_no_hole(to, whole)
        assert forked(lambda: dying(1 + deed // 2, lambda: run(now, to))) in (0, EXIT_CODE)
        assert_no_hole(to, whole)
        assert forked(lambda: run(now, to)) == 0
        assert rows_in(to) == whole
        assert_tidy(to)
    return True


def assert_tidy(to: Path) -> None:
    left = {str(path.relative_to(to)) for path in (to / "_export").rglob("*") if path.is_file()}
    assert left == {"_export/lock", "_export/state.json"}, left
    assert json.loads((to / "_export" / "state.json").read_text())["pending"] == {
        "files": [],
        "streams": {},
    }


def main(earlier: Path, then: Path, now: Path) -> int:
    """How many times it died. These are states of one bucket: the directory is begun with the
    first, the run that dies has the second."""
    begun, complete = earlier.with_name("begun"), earlier.with_name("complete")
    assert forked(lambda: run(earlier, begun)) == 0
    assert forked(lambda: run(now, complete)) == 0
    whole = rows_in(complete)
    deed = 1
    while survives(begun, then, now, deed, whole):
        deed += 1
    return deed - 1


if __name__ == "__main__":
    print(main(*map(Path, sys.argv[1:])))
