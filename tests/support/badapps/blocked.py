"""An application whose import never comes to an end."""

import threading

threading.Event().wait(120)
