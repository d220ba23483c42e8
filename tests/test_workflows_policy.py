"""The policy of workflows: kept by all of ours, and noticed where it is not."""

from __future__ import annotations

import re

import pytest

from acting import PROJECT, STANDINS, load, pinned
from policy import ACTIONS, RULES, File

GITHUB = PROJECT / ".github"
PLACEHOLDER = "@servebench/maintainers"
FILES = {
    file.name: file
    for file in (
        *(File(path.name, path.read_text("utf-8")) for path in GITHUB.glob("workflows/*")),
        *(
            File(f"{path.parent.name}/{path.name}", path.read_text("utf-8"))
            for path in GITHUB.glob("actions/*/*")
        ),
    )
}

GOOD = """\
name: Good
on:
  schedule: [{ cron: "0 0 * * *" }]
  workflow_dispatch:
permissions: {}
concurrency:
  group: good
jobs:
  run:
    runs-on: [self-hosted, servebench]
    timeout-minutes: 10
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - uses: ./.github/actions/setup
      - timeout-minutes: 5
        env:
          SHARD: ${{ matrix.shard }}
        run: servebench ci fleet run --profile "$SHARD"
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1
        if: ${{ !cancelled() }}
        with:
          name: shard-1
          path: measured
          overwrite: true
  tell:
    runs-on: ubuntu-24.04
    timeout-minutes: 10
    permissions:
      issues: write
    steps:
      - env:
          GITHUB_TOKEN: ${{ github.token }}
        run: servebench doctor --json
      - uses: actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1
        with:
          name: night
      - uses: actions/upload-pages-artifact@fc324d3547104276b827a68afc52ff2a11cc49c9 # v5.0.0
        with:
          name: github-pages-${{ github.run_attempt }}
      - uses: actions/deploy-pages@cd2ce8fcbc39b97be8ca5fce6e763baed58fa128 # v5.0.0
        with:
          artifact_name: ${{ needs.tell.outputs.artifact }}
"""
CALLER = """\
name: Caller
on: { schedule: [{ cron: "0 0 * * *" }] }
permissions: {}
concurrency:
  group: caller
jobs:
  run:
    permissions:
      contents: write
    uses: ./.github/workflows/shard.yml
    with:
      commit: ${{ needs.stack.outputs.commit || github.sha }}
"""

CHECKOUT = """\
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
"""
BAD = [
    ("pins", " # v7.0.1", ""),
    ("pins", " # v7.0.1", " # v7"),
    ("pins", "uses: actions/checkout@", "uses: somebody/checkout@"),
    ("pins", "@3d3c42e5aac5ba805825da76410c181273ba90b1 #", "@v7 #"),
    ("pins", "uses: ./.github", "uses: actions/cache@v4 # v4.0.0\n      - uses: ./.github"),
    ("permissions", "permissions: {}", "permissions: read-all"),
    ("permissions", "permissions: {}\n", ""),
    ("permissions", "    permissions:\n      issues: write\n", ""),
    ("permissions", "    permissions:\n      issues: write\n", "    permissions: write-all\n"),
    ("limits", "    timeout-minutes: 10\n", ""),
    ("limits", "timeout-minutes: 10", "timeout-minutes: 360"),
    ("limits", "concurrency:\n  group: good\n", ""),
    ("limits", "timeout-minutes: 5", "name: Measure"),
    ("limits", "timeout-minutes: 5", "timeout-minutes: 10"),
    (
        "limits",
        "      - uses: actions/upload-artifact",
        (
            "      - timeout-minutes: 1\n        run: servebench ci fleet inprocess\n"
            "      - uses: actions/upload-artifact"
        ),
    ),
    ("machines", "  run:\n", "  other:\n"),
    ("machines", "[self-hosted, servebench]", "self-hosted"),
    ("machines", "servebench ci fleet run", "servebench run"),
    (
        "machines",
        "uses: ./.github/actions/setup\n      - timeout",
        "uses: ./.github/actions/setup\n        with:\n          target: setup\n      - timeout",
    ),
    ("machines", "ubuntu-24.04", "[self-hosted, servebench]"),
    ("machines", "ubuntu-24.04", "${{ inputs.runner }}"),
    ("machines", "      contents: read\n", "      contents: write\n"),
    ("machines", "SHARD: ${{ matrix.shard }}", "GITHUB_TOKEN: ${{ github.token }}"),
    ("machines", "  workflow_dispatch:\n", "  pull_request:\n"),
    ("machines", "  workflow_dispatch:\n", "  issue_comment:\n"),
    ("injection", '"$SHARD"', '"${{ matrix.shard }}"'),
    ("injection", "run: servebench doctor --json", 'run: git fetch origin "$BASE"'),
    ("secrets", "${{ matrix.shard }}", "${{ secrets.KEY }}"),
    ("secrets", "        with:\n          persist-credentials: false\n", ""),
    ("secrets", "concurrency:", "env:\n  GITHUB_TOKEN: ${{ github.token }}\nconcurrency:"),
    ("trust", "  workflow_dispatch:\n", "  pull_request:\n"),
    ("trust", "${{ github.token }}", "${{ github.event.pull_request.title }}"),
    ("trust", "${{ github.token }}", "${{ github.head_ref }}"),
    ("trust", "${{ github.token }}", "${{ github.event.issue.body || 'none' }}"),
    (
        "trust",
        "    steps:\n      - env:\n",
        f"    steps:\n{CHECKOUT}          ref: ${{{{ github.head_ref }}}}\n      - env:\n",
    ),
    (
        "trust",
        "    steps:\n      - env:\n",
        f"    steps:\n{CHECKOUT}          ref: ${{{{ inputs.commit }}}}\n      - env:\n",
    ),
    ("verbs", "run: servebench doctor --json", "run: curl --fail https://example.org"),
    ("verbs", "run: servebench doctor --json", "run: servebench doctor --json || true"),
    ("verbs", "run: servebench doctor --json", "run: servebench doctor > doctor.txt"),
    ("options", "run: servebench doctor --json", "run: servebench doctor --jsno"),
    ("options", "run: servebench doctor --json", "run: servebench docter"),
    ("options", "run: servebench doctor --json", "run: servebench stack lokc current"),
    ("again", "          overwrite: true\n", ""),
    ("again", "-${{ github.run_attempt }}", ""),
    ("again", "${{ needs.tell.outputs.artifact }}", "github-pages-1"),
    ("again", "name: night", 'pattern: "shard-*"'),
    (
        "again",
        "run: servebench doctor --json",
        'run: servebench ci history push out --plan night.json --plan-sha256 "$PLAN"',
    ),
    *(
        ("digests", "run: servebench doctor --json", f"run: servebench {words}")
        for words in (
            "accept --plan night.json --from in --to out",
            "run --plan night.json --shard 1",
            'history push out --plan night.json --plan-sha256 "0000"',
            "detect --confirm --from candidates.json",
            "accept --confirmed --from in --to out",
            "accept --confirmed --from in --to out --candidates all.json",
        )
    ),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FILES)
def test_every_workflow_keeps_every_rule(name: str, rule: str) -> None:
    """What each rule is for stands in its docstring."""
    assert list(RULES[rule](FILES[name])) == []


@pytest.mark.parametrize(("rule", "part", "instead"), BAD)
def test_a_rule_that_is_broken_is_noticed(rule: str, part: str, instead: str) -> None:
    """Of a workflow that keeps them all, one line is changed."""
    good = File("bench.yml", GOOD)
    assert [trouble for check in RULES.values() for trouble in check(good)] == []
    assert part in GOOD
    assert list(RULES[rule](File("bench.yml", GOOD.replace(part, instead, 1)))) != []


@pytest.mark.parametrize(
    ("rule", "part", "instead"),
    [
        ("machines", '{ schedule: [{ cron: "0 0 * * *" }] }', "[schedule, issue_comment]"),
        ("machines", '{ schedule: [{ cron: "0 0 * * *" }] }', "{ workflow_call: }"),
        ("trust", "needs.stack.outputs.commit", "github.event.comment.body"),
        ("secrets", "    with:\n", "    secrets: inherit\n    with:\n"),
        ("permissions", "    permissions:\n      contents: write\n", ""),
    ],
)
def test_whoever_calls_a_workflow_is_held_to_the_same(rule: str, part: str, instead: str) -> None:
    """The jobs of a called workflow start as its caller does, with the rights that it grants."""
    assert [bad for check in RULES.values() for bad in check(File("x.yml", CALLER))] == []
    assert part in CALLER
    assert list(RULES[rule](File("x.yml", CALLER.replace(part, instead)))) != []


def test_nothing_is_left_out() -> None:
    """All that GitHub would read is among the files: the policy would not see another one."""
    settings = {"actionlint.yaml", "dependabot.yml", "zizmor.yml"}
    everything = {path.name for path in GITHUB.rglob("*.y*ml")}
    assert everything - settings == {name.rpartition("/")[2] for name in FILES}
    assert {"ci.yml", "slash.yml", "bench.yml", "nightly.yml", "deps.yml", "watchdog.yml"} <= set(
        FILES
    )


def test_the_placeholder_for_owners_is_replaced_throughout_or_nowhere() -> None:
    """Half of it would look like all of it, and leave paths that nobody is asked about."""
    rules = (GITHUB / "CODEOWNERS").read_text("utf-8").splitlines()
    owners = [line.split()[1:] for line in rules if line and not line.startswith("#")]
    theirs = [PLACEHOLDER in named for named in owners]
    assert all(theirs) or not any(theirs)
    page = (PROJECT / "docs" / "automation.md").read_text("utf-8")
    assert f"sed -i 's|{PLACEHOLDER}|@YOU|' .github/CODEOWNERS" in page


def test_every_pin_is_used_and_has_a_stand_in() -> None:
    """At one version of each everywhere; without a stand-in act cannot run it."""
    found = pinned(GITHUB)
    assert sorted(name.partition("@")[0] for name in found) == sorted(ACTIONS)
    assert all((folder / "action.yml").is_file() for folder in found.values())
    assert {folder.name for folder in STANDINS.iterdir() if folder.is_dir()} == {
        name.partition("/")[2] for name in ACTIONS
    }


def test_whoever_renews_the_pins_changes_nothing_but_them() -> None:
    """Of every file, as a bot does it: a commit, and the version in the comment after it."""
    for file in FILES.values():
        text = re.sub(r"@[0-9a-f]{40} # v[\d.]+", f"@{'b' * 40} # v99.0.0", file.text)
        renewed = File(file.name, text)
        assert [trouble for check in RULES.values() for trouble in check(renewed)] == []


def test_a_bot_looks_after_the_pins_of_workflows_and_actions() -> None:
    """In all their folders, and not before others have had time to find what is wrong with one."""
    (update,) = load((GITHUB / "dependabot.yml").read_text("utf-8"))["updates"]
    assert update["package-ecosystem"] == "github-actions"
    assert update["cooldown"]["default-days"] >= 7
    folders = {path.parent for path in GITHUB.rglob("*.yml") if "uses:" in path.read_text("utf-8")}
    looked = {GITHUB / "workflows"}  # which it knows as "/"
    for glob in update["directories"]:
        looked |= set(PROJECT.glob(glob.strip("/"))) if glob != "/" else set()
    assert folders <= looked


def test_targets_that_actions_name_are_in_the_makefile() -> None:
    """The set-up action is handed a target by name."""
    targets = {
        line.partition(":")[0]
        for line in (PROJECT / "Makefile").read_text("utf-8").splitlines()
        if line and line[0].isalpha() and ":" in line
    }
    named = {
        step.get("with", {}).get("target", "harness")
        for file in FILES.values()
        for _, step in file.steps()
        if step.get("uses") == "./.github/actions/setup"
    }
    assert named == {"harness", "setup", "tools"}
    assert named <= targets


def test_every_workflow_is_described() -> None:
    """The page's first table has a row for each of them, and for nothing else."""
    page = (PROJECT / "docs" / "automation.md").read_text("utf-8")
    described = re.findall(r"^\| `([\w.]+)` \|", page.partition("### ")[0], re.MULTILINE)
    assert sorted(described) == sorted(name for name, file in FILES.items() if not file.is_action)
