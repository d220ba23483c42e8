"""An application that cannot be imported."""

raise RuntimeError("no database today")
