# Every habit is one verb; `just` alone lists them.

default:
    @just --list

# Make the environment and the compiled copy.
setup:
    ./penstock version

# Style, types, import contracts and tidiness; no slow tests.
check:
    PENSTOCK_TEST_BUILDS=pure ./penstock test tests/test_tidy.py tests/test_architecture.py

# The suite on the pure build.
test *arguments:
    PENSTOCK_TEST_BUILDS=pure ./penstock test {{arguments}}

# The suite on the compiled build.
test-compiled *arguments:
    PENSTOCK_TEST_BUILDS=compiled ./penstock test {{arguments}}

# The tests of Spark on other versions of Spark.
matrix *arguments:
    ./penstock matrix {{arguments}}

# Everything the build server runs.
ci:
    .ci/run

# Let ruff mend what it can.
format:
    .venv/bin/ruff check --fix-only .
    .venv/bin/ruff format .

# A broker; arguments go to `penstock serve`.
run *arguments:
    ./penstock serve {{arguments}}

# A short honest demonstration.
demo:
    ./penstock demo
