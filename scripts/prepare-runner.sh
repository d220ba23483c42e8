#!/bin/sh
# Make this machine one of our runners: its user, hook, services and clock. docs/observatory/runners.md.
#   sudo sh scripts/prepare-runner.sh repository=OWNER/NAME packages=HOST,…   # or packages=none
# Further words: repository_id= branch=, and root=FOLDER to look first: files are written below it, and
# commands are printed only.
# Needs Linux with systemd. It asks for no token, and can be repeated at any time.
set -eu
umask 022
fail() { echo "prepare-runner.sh: $*" >&2; exit 2; }
from=$(cd "$(dirname "$0")" && pwd)/runner
repository='' repository_id='' packages='' root=''
head=$(sed -n 's|^ref: refs/remotes/origin/||p' "$from/../../.git/refs/remotes/origin/HEAD" 2>/dev/null || :)
set -- "branch=${head:-main}" "$@"
for word; do # every value ends up in files of root's
  case $word in
    packages=*/*) fail "$word: expected names of hosts" ;;
    repository=?*/?* | repository_id=* | branch=* | packages=* | root=/*) ;;
    *) fail "$word: expected repository=OWNER/NAME, or another word of docs/observatory/runners.md" ;;
  esac
  case ${word#*=} in
    '' | -* | *..* | *[!A-Za-z0-9._/,-]*) fail "$word: expected letters, digits and ._/,-" ;;
  esac
  case ,$(echo "${word#*=}" | tr / ,), in
    *,HOST,* | *,OWNER,* | *,NAME,*) fail "$word: expected your own value, not a placeholder" ;;
  esac
  eval "${word%%=*}=\${word#*=}"
done
[ -n "$repository" ] || fail "expected repository=OWNER/NAME"
[ -n "$packages" ] || fail "expected packages=HOST,…: the sandbox installs packages from these hosts only \
(docs/observatory/nights.md, step 8); packages=none if it needs none"
[ "$packages" != none ] || packages=''
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "it changes the system: run it with sudo, or with root=FOLDER"
act() { if [ -n "$root" ]; then echo "\$ $*"; else "$@"; fi; }
put() { # MODE FILE: what comes in becomes a file of root's, as a whole
  mkdir -p "$root${2%/*}" && cat >"$root$2.new" && chmod "$1" "$root$2.new" && mv -f "$root$2.new" "$root$2"
}
folder() { # MODE FOLDER
  mkdir -p "$root$2" && chmod "$1" "$root$2" && act chown duetbench: "$2"
}

id -u duetbench >/dev/null 2>&1 || act useradd --system --create-home --home-dir /var/lib/duetbench \
  --shell /usr/sbin/nologin --user-group duetbench
folder 700 /var/lib/duetbench
folder 700 /srv/actions-runner # its credentials are in there
folder 755 /srv/duetbench-work
folder 755 /var/cache/duetbench
put 755 /usr/local/lib/duetbench/job-started.sh <"$from/job-started.sh"
put 644 /etc/duetbench/policy <<END
repository='$repository' repository_id='$repository_id' ref='refs/heads/$branch'
END
units=/etc/systemd/system
for file in "$from"/*.service; do put 644 "$units/${file##*/}" <"$file"; done
printf '[Service]\nEnvironment=DUETBENCH_PACKAGES=%s\n' "$packages" |
  put 644 "$units/duetbench-runner.service.d/50-packages.conf"
if [ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
  put 644 /etc/apparmor.d/duetbench-bwrap <"$from/apparmor-bwrap"
  act apparmor_parser --replace /etc/apparmor.d/duetbench-bwrap
fi

# What keeps figures steady: one clock, no updates at night, with four cores one for the system.
for timer in apt-daily apt-daily-upgrade; do
  printf '%s\n' '[Timer]' OnCalendar= 'OnCalendar=*-*-* 12:00' RandomizedDelaySec=0 Persistent=false |
    put 644 "$units/$timer.timer.d/50-duetbench.conf"
done
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$cores" -ge 4 ]; then
  printf '[Manager]\nCPUAffinity=0\n' | put 644 /etc/systemd/system.conf.d/50-duetbench.conf
  printf '[Service]\nCPUAffinity=1-%s\n' "$((cores - 1))" |
    put 644 "$units/duetbench-runner.service.d/50-cores.conf"
fi
act systemctl daemon-reload
act systemctl enable duetbench-clock.service duetbench-runner.service
echo "Now register GitHub's runner, and start the services: steps 9 to 12 of docs/observatory/nights.md"
