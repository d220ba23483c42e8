"""The oldest version of Python to measure, and which one lacks which standard module."""

from typing import Final

from packaging.version import Version

OLDEST: Final = Version("3.10")
"""The oldest Python for our code that runs beside an application."""

REMOVED: Final = {
    "3.11": "binhex",
    "3.12": "asynchat asyncore distutils imp smtpd",
    "3.13": "aifc audioop cgi cgitb chunk crypt imghdr lib2to3 mailcap msilib nis nntplib "
    "ossaudiodev pipes sndhdr spwd sunau telnetlib uu xdrlib",
    "3.15": "sre_compile sre_constants sre_parse",
}
"""Version of Python → modules that it and newer ones lack."""


def removed(module: str, version: Version) -> str:
    """Say that a Python no longer has a module of the standard library; empty if it does."""
    for first, modules in REMOVED.items():
        if module in modules.split() and version >= Version(first):
            older = Version(first).minor - 1
            return f"Python {first} and newer have no {module}: try --python 3.{older}"
    return ""
