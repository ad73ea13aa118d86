"""`python -m bench`, from the project's root."""

import sys

from bench.run import main

if __name__ == "__main__":
    sys.exit(main())
