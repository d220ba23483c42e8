"""An application inside one process, without a server, by the standard library alone."""
