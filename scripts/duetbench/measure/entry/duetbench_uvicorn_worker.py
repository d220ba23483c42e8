"""Settings of Gunicorn with uvicorn's workers, which are pinned like those of uvicorn alone."""

import os
from importlib import import_module

control_socket_disable = True  # see duetbench_gunicorn.py

import_module("uvicorn_worker").UvicornWorker.CONFIG_KWARGS = {
    "loop": os.environ["DUETBENCH_LOOP"],
    "http": "httptools",
    "ws": "none",
    "interface": "asgi3",
}
