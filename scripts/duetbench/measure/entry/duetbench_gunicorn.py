"""Settings of Gunicorn that not all of its releases have: what one does not know, it skips here."""

# A socket for commands, at the same place for every server of a user.
control_socket_disable = True
