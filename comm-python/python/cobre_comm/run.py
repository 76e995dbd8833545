"""``python -m cobre_comm.run -n 4 program.py``: starts the ranks of a program as ``comm-run`` does."""

import sys

import cobre_comm
from cobre_comm._launcher import main

if __name__ == "__main__":
    main()
else:
    # Importing a module binds its name in the package, where `run` is a function: it stays one.
    sys.modules[__name__] = cobre_comm.run  # type: ignore[assignment]
