#!/bin/sh
# GitHub's runner starts this before the first step of every job (docs/observatory/runners.md). If a hook fails,
# the runner only fails one step: the `pre:` of actions and steps with `if: always()` still run. So a
# refused job is killed together with the process that runs it; if that is not found, together with
# all processes of this user.
set +e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
policy=/etc/duetbench/policy # repository, repository_id and ref; root's

worker=$$ name=
while [ "$worker" -gt 1 ] && [ "$name" != Runner.Worker ]; do
  parent=0 name=
  while read -r key value; do [ "$key" != PPid: ] || parent=$value; done <"/proc/$worker/status"
  worker=$parent
  [ "$worker" -lt 1 ] || read -r name <"/proc/$worker/comm"
done

end_job() {
  if [ "$name" = Runner.Worker ]; then kill -KILL "$worker"; else kill -KILL -1; fi
}
trap end_job EXIT HUP INT TERM # however this script ends; only an accepted job removes it

refuse() {
  reason=$(printf '%s' "this machine does not run this job: $1" | tr -c 'A-Za-z0-9 ._:/@,-' '?')
  printf '::error title=Refused by the machine::%.400s\n' "$reason"
  logger -t duetbench-hook -p auth.warning -- "$reason"
  # The end of the job's log is lost with its process; the runner shows the process's own output.
  [ "$name" != Runner.Worker ] || printf '%.400s\n' "$reason" >"/proc/$worker/fd/2"
  exit 1
}

require() { # NAME FOUND ALLOWED...
  what=$1 found=$2
  shift 2
  for value; do [ "$value" != "$found" ] || return 0; done
  refuse "$what: expected $*, found ${found:-nothing}"
}

repository='' repository_id='' ref=''
. "$policy" || refuse "$policy cannot be read"
[ -n "$repository" ] && [ -n "$ref" ] || refuse "$policy: expected repository and ref"
files=
for file in bench nightly publish; do files="$files $repository/.github/workflows/$file.yml@$ref"; done
require server "$GITHUB_SERVER_URL" https://github.com
require repository "$GITHUB_REPOSITORY" "$repository"
[ -z "$repository_id" ] || require repository_id "$GITHUB_REPOSITORY_ID" "$repository_id"
require event "$GITHUB_EVENT_NAME" schedule workflow_dispatch workflow_run # nothing that a stranger can do
require ref "$GITHUB_REF" "$ref"
require workflow "$GITHUB_WORKFLOW_REF" $files # the file and the ref that it was read at
trap - EXIT HUP INT TERM
echo "duetbench: this machine runs $GITHUB_WORKFLOW_REF for $GITHUB_EVENT_NAME"
