"""What a release of the stack's only package may change."""

import alpha

app = alpha
