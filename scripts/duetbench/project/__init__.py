"""What is measured, and with what: declarations, interpreters, tools, locks and environments."""
