"""The command `ds-spark`, which also has something to say where Spark is missing."""

import sys
from importlib.util import find_spec


def main() -> int:
    if find_spec("pyspark") is None:
        print("ds-spark: Spark is missing here: pip install '.[spark]'", file=sys.stderr)
        return 1
    from spark.cli import main as run

    return run()
