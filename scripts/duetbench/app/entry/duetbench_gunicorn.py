"""Settings of Gunicorn that not all of its releases have: what one does not know, it skips here.

Gunicorn reads one file of settings, which is this one. It includes the one that the user names.
"""

import argparse
import runpy
from importlib import import_module

_parser = argparse.ArgumentParser(add_help=False)
_parser.add_argument("--config", "-c", action="append")
*_others, _own = _parser.parse_known_args()[0].config
for _name in _others[-1:]:  # as in Gunicorn, the last one counts
    _kind, _, _place = _name.rpartition(":")
    _file = vars(import_module(_place)) if _kind == "python" else runpy.run_path(_place)
    globals().update((name, value) for name, value in _file.items() if name[0] != "_")

# A socket for commands, at the same place for every server of a user.
control_socket_disable = True
