"""One launch, real: what a good one gives, that every request is counted, and by hand the same."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from bench import PROJECT, Bench, declared, eventually, failures_of, make_case_short
from servebench import launch, ports, probe, verify
from servebench.counter import Counter
from servebench.errors import LaunchError
from servebench.metrics import METRICS
from servebench.model import Case, Status
from servebench.process import Session
from servebench.rig import Rig, assemble
from servebench.runner import Outcome
from synthetic import make_case

WINDOW = 0.1
COUNTED = ("asgi-wsgi/asgi-json/py{}/w1/c128", "asgi-wsgi/wsgi-json/py{}/w1/t64/c128")
