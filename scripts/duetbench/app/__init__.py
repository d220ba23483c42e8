"""An application made servable: its declaration, environment, server, and the copy of a side."""
