"""Settings of Gunicorn that not all of its releases have: what one does not know, it skips here."""

import os
import sys
from importlib import import_module

# A socket for commands, at the same place for every server of a user.
control_socket_disable = True

if "uvicorn_worker.UvicornWorker" in sys.argv:
    # No option says these; they are pinned like those of uvicorn alone.
    import_module("uvicorn_worker").UvicornWorker.CONFIG_KWARGS = {
        "loop": os.environ["DUETBENCH_LOOP"],
        "http": "httptools",
        "ws": "none",
        "interface": "asgi3",
    }
