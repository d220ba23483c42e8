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
  printf '::error title=Refused by the machine::%s; see docs/runners.md\n' "$said"
  logger -t duetbench-hook -p auth.err "$said"
  exit 1
fi
trap 'kill -KILL "$worker"' EXIT HUP INT TERM  # whatever ends this; only a yes takes it back
said=$(/usr/bin/env -i PATH="$PATH" \
  GITHUB_SERVER_URL="${GITHUB_SERVER_URL-}" \
  GITHUB_REPOSITORY="${GITHUB_REPOSITORY-}" \
  GITHUB_REPOSITORY_ID="${GITHUB_REPOSITORY_ID-}" \
  GITHUB_EVENT_NAME="${GITHUB_EVENT_NAME-}" \
  GITHUB_REF="${GITHUB_REF-}" \
  GITHUB_WORKFLOW_REF="${GITHUB_WORKFLOW_REF-}" \
  /usr/bin/python3 -I -S /usr/local/lib/duetbench/hook.py /etc/duetbench/fleet.json 2>&1)
code=$?
printf '%s\n' "$said"
if [ "$code" -eq 0 ]; then
  trap - EXIT HUP INT TERM
  exit 0
fi
logger -t duetbench-hook -p auth.warning "$said"
# The end of the job's log is lost with its process. What that has written itself, the runner tells.
printf '%s\n' "${said#::error title=Refused by the machine::}" >"/proc/$worker/fd/2"
exit 1
