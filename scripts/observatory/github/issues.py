"""Issues: one for each confirmed change, with its record's text; it closes with the record.

The hidden first line of an issue (`comments.marker`) names the change.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from duetbench.ci import api
from duetbench.ci.actions import BOT
from duetbench.ci.api import GitHub
from duetbench.ci.comments import cut, is_ours, marker, marker_values, plain
from duetbench.core.text import short
from observatory.show import addresses
from observatory.show.quoting import finding_of
from observatory.store.change import Change
from observatory.trend.releases import Key, ReleaseEffect, quote_of

PAUSE: Final = 1.0
"""Seconds between two writes of issues, as GitHub asks."""

MOST: Final = 10
"""Most issues opened at once: more have one common cause, probably not a package."""

_ISSUE: Final = "issue"
_KEY: Final = "change/{0.id}"
_TITLE: Final = 200  # characters of an issue's; GitHub takes 256


def keep(
    github: GitHub, records: Iterable[Change], site: str, quotes: Mapping[Key, ReleaseEffect]
) -> list[str]:
    """Open and close the repository's issues of confirmed changes, which are the newest first.

    An issue that somebody has closed stays closed. What is more than `MOST` is left to the next
    call. `quotes`: the size of each release. Returns a sentence on each issue. Raises ServiceError.
    """
    issues = {
        values["key"]: issue
        for issue in github.get_all("/issues", state="all", creator=BOT)
        # Pull requests are listed, too.
        if is_ours(issue) and "pull_request" not in issue
        if (values := marker_values(_ISSUE, issue["body"]))
    }
    sentences, opened = list[str](), 0
    for record in records:
        issue = issues.get(_KEY.format(record))
        title, body = text(record, site, quotes)
        if record.status == "open" and issue is None and opened < MOST:
            labels = ("duetbench", str(record.verdict))
            issue = github.send("POST", "/issues", title=title, body=body, labels=labels)
            sentences.append(f"{record.id}: opened {issue['html_url']}")
            opened += 1
            api.WAIT(PAUSE)
        elif record.status != "open" and issue is not None and issue["state"] == "open":
            path, reason = f"/issues/{issue['number']}", "completed"
            github.send("PATCH", path, title=title, body=body, state="closed", state_reason=reason)
            sentences.append(f"{record.id}: closed {issue['html_url']}")
            api.WAIT(PAUSE)
    return sentences


def text(record: Change, site: str, quotes: Mapping[Key, ReleaseEffect]) -> tuple[str, str]:
    """Return the title and body of a change's issue: the finding, and where its evidence is.

    `granian 2.8.7 needs 2.1 % more memory (1.6…2.6 %) for a JSON response, and 3 more`
    """
    causes = ", ".join(map(str, record.releases)) or "Unknown cause"
    cause = "" if quote_of(record, quotes) else f"{causes}: "
    more = f", and {len(record.others)} more" if record.others else ""
    title = f"{cause}{finding_of(record, quotes)}{more}"
    parts = [
        f"{marker(_ISSUE, {'key': _KEY.format(record)})}\n**{plain(title)}**, for good.",
        plain(record.remarks),
        f"[The evidence]({site}{addresses.change(record.id)}). It closes if the change is undone.",
    ]
    return short(title, _TITLE), cut("\n\n".join(filter(None, parts)))
