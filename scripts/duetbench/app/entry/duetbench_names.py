"""What the module that servers serve and the tool call the same: variables, and its own path."""

APP = "DUETBENCH_APP"
FACTORY = "DUETBENCH_FACTORY"  # set: it is called in any case
INTERFACE = "DUETBENCH_INTERFACE"
LOOP = "DUETBENCH_LOOP"
PATH = "/_duetbench/identity"
COLLECT = "collect"
ROUTES = "routes"
PROGRAM = "duetbench_entry"
