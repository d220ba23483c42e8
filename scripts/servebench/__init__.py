"""servebench: what did this change do to our Python web stack, and which release did it?"""

__version__ = "0.1.0"
