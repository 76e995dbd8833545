"""``python -m cobre_comm.run -n 4 program.py``: starts the ranks of a program, like ``comm-run``."""

import sys

import cobre_comm
from cobre_comm._launcher import main

if __name__ == "__main__":
    main()
else:
    # Importing this module would bind `run` in the package to the module; keep the function `run` there.
    sys.modules[__name__] = cobre_comm.run  # type: ignore[assignment]
