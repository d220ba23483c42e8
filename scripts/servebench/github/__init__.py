"""The GitHub side of the automation: comments, statuses, issues, and who may ask for what.

    client ──▶ repository ──▶ comments · issues ──▶ slash · announce · watchdog ──▶ the verbs
    one request   one call       one of each           decide, then say it

Nothing here measures. What comes from a pull request is a commit of 40 hexadecimal digits and
nothing else: its titles, branches and texts are neither executed nor shown.
"""
