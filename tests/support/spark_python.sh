#!/bin/sh
# The Python of Spark's workers. Spark shows them its own modules in an archive, where they are
# compiled anew for each worker; the same are installed.
set -eu

found=
IFS=:
for place in ${PYTHONPATH:-}; do
    case $place in
        */pyspark.zip) ;;
        *) found=${found:+$found:}$place ;;
    esac
done
PYTHONPATH=$found exec "$SPARK_TESTS_PYTHON" "$@"
