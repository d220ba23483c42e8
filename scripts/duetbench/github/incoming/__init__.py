"""Files from machines on which other people's code ran, checked before they are kept."""
