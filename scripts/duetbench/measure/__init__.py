"""One launch, one duet, one count: everything between a plan and its figures."""
