"""Prepare a machine as one of our runners: users, hook, network, clock, and what must not disturb.

    sudo python3 scripts/prepare_runner.py --repository OWNER/NAME --dry-run    # look first
    sudo python3 scripts/prepare_runner.py --repository OWNER/NAME

Python's standard library only, on a Linux with systemd. Each step says what it is for, looks
whether it is done, and does it if not, so that the script can be repeated at any time: after an
update of the checkout, it brings what was installed up to date. It asks for no token, stores none,
and reaches for no network; how the runner is registered is printed at the end. docs/runners.md
explains what all of this is for.
"""

import sys

NEEDED = (3, 11)
if sys.version_info < NEEDED:  # before any import that an older Python does not have
    sys.exit("prepare_runner.py needs Python 3.11 or newer, as servebench itself does")

import argparse  # noqa: E402
import ipaddress  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

from machine_steps import Command, File, Folder, Line, Machine, Step, say  # noqa: E402

HOOK = Path(__file__).resolve().parent / "servebench" / "fleet" / "hook.py"
LIBRARY = "/usr/local/lib/servebench"
LAUNCHER = f"{LIBRARY}/job-started.sh"
POLICY = "/etc/servebench/fleet.json"
UNITS = "/etc/systemd/system"
CACHE = "/var/cache/servebench"
WORK = "/srv/servebench-work"

PROGRAMS = ("git", "logger", "nft", "prlimit", "setpriv", "sudo", "systemctl", "useradd", "visudo")
PACKAGES = "git, nftables, util-linux, sudo, systemd and passwd"
SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

EVENTS = ("schedule", "workflow_dispatch")
WORKFLOWS = ("bench.yml", "nightly.yml")  # of what these call, GitHub says that it is them

SEEN = ("SERVER_URL", "REPOSITORY", "REPOSITORY_ID", "EVENT_NAME", "REF", "WORKFLOW_REF")
"""What the hook reads of a job; nothing else of its environment reaches it."""

LAUNCHED = f"""\
#!/bin/sh
# Started by GitHub's runner before the first step of every job; see docs/runners.md.
# The runner goes on with a job whose hook has failed: with what its actions do beforehand, and with
# every step that says always(). So unless the hook lets the job start, the process that runs it is
# ended. Finding and ending it takes nothing but the shell and /proc.
set +e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
worker=$$ name=
while [ "$worker" -gt 1 ] && [ "$name" != Runner.Worker ]; do
  parent=0 name=
  while read -r key value; do [ "$key" != PPid: ] || parent=$value; done <"/proc/$worker/status"
  worker=$parent
  [ "$worker" -lt 1 ] || read -r name <"/proc/$worker/comm"
done
if [ "$name" != Runner.Worker ]; then
  said="above this hook is no process Runner.Worker: a job that is refused could not be ended"
  printf '::error title=Refused by the machine::%s; see docs/runners.md\\n' "$said"
  logger -t servebench-hook -p auth.err "$said"
  exit 1
fi
trap 'kill -KILL "$worker"' EXIT HUP INT TERM  # whatever ends this; only a yes takes it back
said=$(/usr/bin/env -i PATH="$PATH" \\
  VARIABLES \\
  /usr/bin/python3 -I -S {LIBRARY}/hook.py {POLICY} 2>&1)
code=$?
printf '%s\\n' "$said"
if [ "$code" -eq 0 ]; then
  trap - EXIT HUP INT TERM
  exit 0
fi
logger -t servebench-hook -p auth.warning "$said"
# The end of the job's log is lost with its process. What that has written itself, the runner tells.
printf '%s\\n' "${{said#::error title=Refused by the machine::}}" >"/proc/$worker/fd/2"
exit 1
"""

PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
PRIVATE6 = ("fc00::/7", "fe80::/10")


def main() -> None:
    """Do, or show, every step; end with what only a person can do."""
    options = parse()
    if not (options.dry_run or options.root != Path("/") or os.geteuid() == 0):
        sys.exit("prepare_runner.py changes the system: run it with sudo, or with --dry-run")
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    if missing:
        say(f"missing  {', '.join(missing)}: install the packages {PACKAGES} first")
        if not (options.dry_run or options.root != Path("/")):
            sys.exit(1)
    machine = Machine(options.root, options.dry_run)
    for step in steps(options):
        machine.take(step)
    say(f"{machine.changes} steps {'to do' if options.dry_run else 'done'}; the others were so.\n")
    say(farewell(options))


def parse() -> argparse.Namespace:
    """The command line, checked: every value ends up in files of root's."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    add = parser.add_argument
    add("--repository", required=True, type=matching(r"[\w.-]+/[\w.-]+"), metavar="OWNER/NAME")
    add("--repository-id", type=matching(r"\d+"), help="GitHub's number of it: checked as well")
    add("--server", default="https://github.com", type=matching(r"https?://[\w.:-]+"))
    add("--runner", default="/srv/actions-runner", type=matching(r"/[\w./-]+"), metavar="FOLDER",
        help="where the runner's own files are")  # fmt: skip
    add("--user", default="servebench", type=matching(r"[a-z][a-z0-9_-]*"))
    add("--foreign-user", default="servebench-pr", type=matching(r"[a-z][a-z0-9_-]*"),
        help="whom foreign code runs as")  # fmt: skip
    add("--reserve", type=int, metavar="CORES",
        help="cores for everything else; default: one of four or more, otherwise none")  # fmt: skip
    add("--branch", type=matching(r"\w[\w./-]*"), metavar="NAME",
        help="whose workflows may run; default: this checkout's origin's default one")  # fmt: skip
    add("--allow", action="append", default=[], type=network, metavar="NETWORK",
        help="a private network that foreign code may reach, such as a mirror's")  # fmt: skip
    add("--pass", action="append", default=[], dest="passes", type=matching(r"[A-Za-z_]\w*"),
        metavar="VARIABLE", help="of the runner's: foreign code gets it, too")  # fmt: skip
    add("--workflow", action="append", dest="workflows", type=matching(r"[\w-]+\.ya?ml"),
        metavar="FILE", help=f"what may run here; default: {', '.join(WORKFLOWS)}")  # fmt: skip
    add("--event", action="append", dest="events", choices=(*EVENTS, "push"),
        help=f"what may start it; default: {', '.join(EVENTS)}. Never a pull request")  # fmt: skip
    add("--dry-run", action="store_true", help="show what would be done, change nothing")
    add("--root", type=Path, default=Path("/"), help="write below this folder, for trying out")
    options = parser.parse_args()
    options.branch = options.branch or default_branch()
    cores = os.cpu_count() or 1
    if options.reserve is None:
        options.reserve = 1 if cores >= 4 else 0
    if options.reserve and not 0 < options.reserve <= cores - 2:
        parser.error(f"--reserve: of {cores} cores two must be left to measure with")
    options.cores = cores
    return options


def default_branch() -> str:
    """The one that git has found at the origin of this checkout; main, where it has found none."""
    head = HOOK.parents[3] / ".git" / "refs" / "remotes" / "origin" / "HEAD"
    found = re.fullmatch(
        r"ref: refs/remotes/origin/(\w[\w./-]*)\n",
        head.read_text("utf-8") if head.is_file() else "",
    )
    return found[1] if found else "main"


def matching(pattern: str) -> Callable[[str], str]:
    """A type of argparse: text that matches as a whole."""

    def text(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            raise argparse.ArgumentTypeError(f"expected {pattern}, found {value!r}")
        return value

    return text


def network(value: str) -> str:
    """A type of argparse: an IP network."""
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def steps(options: argparse.Namespace) -> Iterator[Step]:
    """Everything that makes a machine a runner, in order."""
    user, foreign = options.user, options.foreign_user
    yield from people(user, foreign)
    yield Folder(options.runner, user, 0o700, "the runner's files: its credentials are in there")
    yield Folder(WORK, user, 0o755, "the runner's work folder: foreign code reads the checkout")
    yield Folder(CACHE, user, 0o755, "interpreters and stacks: foreign code reads them")
    hook, why = HOOK.read_text("utf-8"), "decides who may start a job"
    yield File(f"{LIBRARY}/hook.py", hook, 0o755, why, instead=f"a copy of {HOOK}")
    yield File(LAUNCHER, launched(), 0o755, "starts the hook with nothing but what it reads")
    yield File(POLICY, policy(options), 0o644, "what may start here")
    yield from quiet(options)
    yield from walls(options)
    yield File(
        f"{UNITS}/servebench-runner.service", service(options), 0o644, "the one runner process"
    )
    reload = ("systemctl", "daemon-reload")
    yield Command(reload, "systemd reads the changed units", after="/etc/systemd")
    for unit in ("servebench-clock", "servebench-walls", "servebench-runner"):
        enabled = ("systemctl", "is-enabled", "--quiet", f"{unit}.service")
        enable = ("systemctl", "enable", f"{unit}.service")
        yield Command(enable, f"{unit} starts with the machine", done=enabled)


def people(user: str, foreign: str) -> Iterator[Step]:
    """The runner's user, and a lesser one for foreign code."""
    for name, why in ((user, "runs the runner and our own code"), (foreign, "runs foreign code")):
        home = ("--create-home", "--home-dir", f"/var/lib/{name}")
        shell = ("--shell", "/usr/sbin/nologin", "--user-group")
        add = ("useradd", "--system", *home, *shell, name)
        yield Command(add, f"user {name}: {why}", done=("id", "-u", name))
        yield Folder(f"/var/lib/{name}", name, 0o700, f"home of {name}, closed to others")
    yield File(
        "/etc/sudoers.d/servebench",
        f"# The runner may become the user of foreign code, and nobody else.\n"
        f"Defaults:{user} !requiretty\n"
        f"{user} ALL=({foreign}) NOPASSWD: ALL\n",
        0o440,
        f"{user} may become {foreign}, never root",
        ("visudo", "-cqf"),
    )
    for name in ("cron.deny", "at.deny"):
        yield Line(f"/etc/{name}", foreign, f"{foreign} leaves nothing to run later")


def launched() -> str:
    """What the runner starts: it must end in .sh, and takes over six variables."""
    variables = " \\\n  ".join(f'GITHUB_{name}="${{GITHUB_{name}-}}"' for name in SEEN)
    return LAUNCHED.replace("VARIABLES", variables)


def policy(options: argparse.Namespace) -> str:
    """The machine's policy, which the hook and `servebench ci fleet` read."""
    document = {
        "server": options.server,
        "repository": options.repository,
        "ref": f"refs/heads/{options.branch}",
        "events": options.events or list(EVENTS),
        "workflows": options.workflows or list(WORKFLOWS),
        "user": options.foreign_user,
        "room": f"/var/lib/{options.foreign_user}",
        "passes": options.passes,
    }
    if options.repository_id:
        document["repository_id"] = options.repository_id
    return json.dumps(document, indent=1) + "\n"


def quiet(options: argparse.Namespace) -> Iterator[Step]:
    """What keeps figures steady: the clock, the system's own jobs, cores of one's own."""
    yield File(
        f"{LIBRARY}/steady-clock.sh",
        "#!/bin/sh\n"
        "# One frequency, as far as this machine lets itself be told; a virtual one does not.\n"
        "for file in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do\n"
        '  [ -w "$file" ] && echo performance >"$file"\n'
        "done\n"
        "cpu=/sys/devices/system/cpu\n"
        "[ -w $cpu/intel_pstate/no_turbo ] && echo 1 >$cpu/intel_pstate/no_turbo\n"
        "[ -w $cpu/cpufreq/boost ] && echo 0 >$cpu/cpufreq/boost\n"
        "exit 0\n",
        0o755,
        "no change of frequency in the middle of a launch",
    )
    yield File(
        f"{UNITS}/servebench-clock.service",
        "[Unit]\nDescription=One clock frequency, for servebench\n\n"
        f"[Service]\nType=oneshot\nExecStart={LIBRARY}/steady-clock.sh\n\n"
        "[Install]\nWantedBy=multi-user.target\n",
        0o644,
        "sets it after every start",
    )
    for timer in ("apt-daily", "apt-daily-upgrade"):
        yield File(
            f"{UNITS}/{timer}.timer.d/50-servebench.conf",
            "[Timer]\nOnCalendar=\nOnCalendar=*-*-* 12:00\n"
            "RandomizedDelaySec=0\nPersistent=false\n",
            0o644,
            f"{timer} at noon, when no night is measured",
        )
    if options.reserve:
        yield File(
            "/etc/systemd/system.conf.d/50-servebench.conf",
            f"[Manager]\nCPUAffinity=0-{options.reserve - 1}\n",
            0o644,
            "the system's services stay on cores of their own (from the next start on)",
        )


def walls(options: argparse.Namespace) -> Iterator[Step]:
    """What foreign code cannot reach: the networks around this machine."""
    foreign = options.foreign_user
    families: dict[str, list[str]] = {"ip": [], "ip6": []}
    for allowed in options.allow:
        families["ip6" if ":" in allowed else "ip"].append(allowed)
    accepted = "".join(
        f"    {family} daddr {{ {', '.join(many)} }} accept\n"
        for family, many in families.items()
        if many
    )
    yield File(
        "/etc/servebench/walls.nft",
        "table inet servebench\ndelete table inet servebench\n"
        "table inet servebench {\n"
        "  chain output {\n"
        "    type filter hook output priority 0; policy accept;\n"
        f'    meta skuid != "{foreign}" accept\n'
        '    oifname "lo" accept\n'
        "    meta l4proto { tcp, udp } th dport 53 accept\n"
        f"{accepted}"
        f"    ip daddr {{ {', '.join(PRIVATE)} }} reject\n"
        f"    ip6 daddr {{ {', '.join(PRIVATE6)} }} reject\n"
        "    tcp dport { 80, 443 } accept\n"
        "    reject\n"
        "  }\n}\n",
        0o644,
        f"{foreign} reaches packages on the internet, and no machine around this one",
    )
    yield File(
        f"{UNITS}/servebench-walls.service",
        "[Unit]\nDescription=What foreign code cannot reach\nBefore=servebench-runner.service\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
        "ExecStart=/usr/sbin/nft -f /etc/servebench/walls.nft\n\n"
        "[Install]\nWantedBy=multi-user.target\n",
        0o644,
        "raises the walls after every start (needs the package nftables)",
    )


def service(options: argparse.Namespace) -> str:
    """The unit of the runner.

    Only such protections are in it as leave sudo alone: most of systemd's others forbid new
    privileges, and with them the change to the lesser user.
    """
    cores = f"CPUAffinity={options.reserve}-{options.cores - 1}\n" if options.reserve else ""
    hook = "ACTIONS_RUNNER_HOOK_JOB_STARTED"
    return (
        "[Unit]\nDescription=GitHub Actions runner of servebench, the only one of this machine\n"
        "Wants=network-online.target\nAfter=network-online.target\n"
        "Requires=servebench-walls.service\nAfter=servebench-walls.service\n"
        f"ConditionPathExists={options.runner}/.runner\n"
        f"AssertFileIsExecutable={LAUNCHER}\n\n"
        f"[Service]\nUser={options.user}\nWorkingDirectory={options.runner}\n"
        f"Environment={hook}={LAUNCHER}\nEnvironment=XDG_CACHE_HOME={CACHE}\n"
        "# The runner's own .env comes after this environment: it must not name another hook.\n"
        f"ExecStartPre=/bin/sh -c '! grep -qs ACTIONS_RUNNER_HOOK {options.runner}/.env'\n"
        f"ExecStart={options.runner}/run.sh\n"
        f"{cores}Delegate=yes\nUMask=0022\nPrivateTmp=yes\nProtectSystem=full\nProtectHome=yes\n"
        "KillSignal=SIGINT\nKillMode=mixed\nTimeoutStopSec=5min\nRestart=always\nRestartSec=15\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def farewell(options: argparse.Namespace) -> str:
    """What only a person can do: the token of the registration passes through nobody's script."""
    address, user = f"{options.server}/{options.repository}", options.user
    return (
        f"Then, once: unpack GitHub's runner into {options.runner} as {user}, and register it with "
        f"a token from {address}/settings/actions/runners/new:\n"
        f"  sudo -u {user} {options.runner}/config.sh --url {address} --work {WORK} \\\n"
        "    --labels servebench,MACHINE --unattended --token TOKEN\n"
        "  sudo systemctl start servebench-walls servebench-clock servebench-runner\n"
        f"  sudo -u {user} .venv/bin/servebench ci fleet check   # in a checkout that is set up\n"
        "MACHINE is the machine's id, which `servebench doctor` shows.\n"
    )


if __name__ == "__main__":
    main()
