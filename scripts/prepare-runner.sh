#!/bin/sh
# Make this machine one of our runners: users, hook, walls, clock. docs/runners.md says what for.
#   sudo sh scripts/prepare-runner.sh repository=OWNER/NAME
# Further words: repository_id= branch= allow=NETWORK,… pass=VARIABLE,… workflows=FILE,… events=…,
# and root=FOLDER to look first: files are written below it, and commands are printed only.
# Needs Linux with systemd. It asks for no token, and can be repeated at any time.
set -eu
umask 022
fail() { echo "prepare-runner.sh: $*" >&2; exit 2; }
from=$(cd "$(dirname "$0")" && pwd)
repository='' repository_id='' allow='' pass='' root=''
workflows=bench.yml,nightly.yml,publish.yml events=schedule,workflow_dispatch,workflow_run
head=$(sed -n 's|^ref: refs/remotes/origin/||p' "$from/../.git/refs/remotes/origin/HEAD" 2>/dev/null || :)
set -- "branch=${head:-main}" "$@"
for word; do  # every value ends up in files of root's
  case $word in
    repository=?*/?* | repository_id=* | branch=* | allow=* | pass=* | root=/*) ;;
    workflows=*.yml | events=schedule | events=workflow_dispatch | events=push) ;;
    events=schedule,workflow_dispatch | events=push,schedule,workflow_dispatch) ;;
    *) fail "$word: expected repository=OWNER/NAME, or another word of docs/runners.md" ;;
  esac
  case ${word#*=} in
    '' | -* | *..* | *[!A-Za-z0-9._/:,-]*) fail "$word: expected letters, digits and ._/:,-" ;;
  esac
  eval "${word%%=*}=\${word#*=}"
done
[ -n "$repository" ] || fail "expected repository=OWNER/NAME"
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "it changes the system: run it with sudo, or with root=FOLDER"
for program in git logger nft prlimit setpriv sudo systemctl useradd; do
  [ -n "$root" ] || command -v "$program" >/dev/null || fail "install $program first"
done
act() { if [ -n "$root" ]; then echo "\$ $*"; else "$@"; fi; }
put() {  # MODE FILE: what comes in becomes a file of root's, as a whole
  mkdir -p "$root${2%/*}" && cat >"$root$2.new" && chmod "$1" "$root$2.new" && mv -f "$root$2.new" "$root$2"
}
folder() {  # MODE OWNER FOLDER
  mkdir -p "$root$3" && chmod "$1" "$root$3" && act chown "$2:" "$3"
}
list() { [ -z "$1" ] || printf '"%s"' "$1" | sed 's/,/", "/g'; }

for user in duetbench duetbench-pr; do
  id -u "$user" >/dev/null 2>&1 || act useradd --system --create-home --home-dir "/var/lib/$user" \
    --shell /usr/sbin/nologin --user-group "$user"
  folder 700 "$user" "/var/lib/$user"
done
folder 700 duetbench /srv/actions-runner  # its credentials are in there
folder 755 duetbench /srv/duetbench-work  # foreign code reads the checkout,
folder 755 duetbench /var/cache/duetbench  # interpreters and tools
# The runner may become the user of foreign code, and nobody else; that one leaves nothing for later.
printf '%s\n' 'Defaults:duetbench !requiretty' 'duetbench ALL=(duetbench-pr) NOPASSWD: ALL' |
  put 440 /etc/sudoers.d/duetbench
for deny in cron.deny at.deny; do
  { grep -vx duetbench-pr "$root/etc/$deny" 2>/dev/null || :; echo duetbench-pr; } | put 644 "/etc/$deny"
done
for file in duetbench/github/runner/hook.py duetbench/github/runner/job-started.sh runner/steady-clock.sh; do
  put 755 "/usr/local/lib/duetbench/${file##*/}" <"$from/$file"
done
number=${repository_id:+$(printf ' "repository_id": "%s",' "$repository_id")}
put 644 /etc/duetbench/fleet.json <<END
{
 "repository": "$repository",$number
 "ref": "refs/heads/$branch",
 "events": [$(list "$events")],
 "workflows": [$(list "$workflows")],
 "user": "duetbench-pr",
 "room": "/var/lib/duetbench-pr",
 "passes": [$(list "$pass")]
}
END

# What keeps figures steady: one clock, no updates at night, with four cores one for the system.
for timer in apt-daily apt-daily-upgrade; do
  printf '%s\n' '[Timer]' OnCalendar= 'OnCalendar=*-*-* 12:00' RandomizedDelaySec=0 Persistent=false |
    put 644 "/etc/systemd/system/$timer.timer.d/50-duetbench.conf"
done
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$cores" -ge 4 ]; then
  printf '[Manager]\nCPUAffinity=0\n' | put 644 /etc/systemd/system.conf.d/50-duetbench.conf
  printf '[Service]\nCPUAffinity=1-%s\n' "$((cores - 1))" |
    put 644 /etc/systemd/system/duetbench-runner.service.d/50-cores.conf
fi

# What foreign code cannot reach: the networks around this machine.
rules=''
for net in $(echo "$allow" | tr , ' '); do
  case $net in *:*) rules="$rules ip6 daddr $net accept;" ;; *) rules="$rules ip daddr $net accept;" ;; esac
done
sed "s|^ *# ALLOWED.*|   $rules|" "$from/runner/walls.nft" | put 644 /etc/duetbench/walls.nft
for unit in clock walls runner; do
  put 644 "/etc/systemd/system/duetbench-$unit.service" <"$from/runner/duetbench-$unit.service"
done
act systemctl daemon-reload
act systemctl enable duetbench-clock.service duetbench-walls.service duetbench-runner.service
cat <<END
Then, once: unpack GitHub's runner into /srv/actions-runner as duetbench, and register it with a
token from https://github.com/$repository/settings/actions/runners/new:
  sudo -u duetbench /srv/actions-runner/config.sh --url https://github.com/$repository \\
    --work /srv/duetbench-work --labels duetbench,MACHINE --unattended --token TOKEN
  sudo systemctl start duetbench-walls duetbench-clock duetbench-runner
  sudo -u duetbench .venv/bin/duetbench ci fleet check   # in a checkout that is set up
MACHINE is the machine's id, which \`duetbench doctor\` shows.
END
