#!/bin/sh
# The two branches that nights write, by git alone. Neither is the default one, which so can be
# protected. Workflows run this in a fresh checkout of the code:
#
#   sh scripts/branches.sh code          follow this code on duetbench/stack, check that out, and push
#   sh scripts/branches.sh locks         that, then renew its locks in a commit of their own
#   sh scripts/branches.sh history       clone gh-pages to history/, or begin it
#   sh scripts/branches.sh keep MESSAGE  commit what is new in history/results/, and push it
#
# Who is late begins again from what another has pushed. With GITHUB_TOKEN git authenticates itself
# to GitHub, and to no other server. A step's output `commit` is what can be measured.
set -eu

stack=refs/heads/duetbench/stack
history=gh-pages
code=$(git rev-parse HEAD)
export GIT_AUTHOR_NAME=duetbench GIT_AUTHOR_EMAIL=duetbench@localhost
export GIT_COMMITTER_NAME=duetbench GIT_COMMITTER_EMAIL=duetbench@localhost

if [ -n "${GITHUB_TOKEN-}" ]; then
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="credential.${GITHUB_SERVER_URL:-https://github.com}.helper"
    export GIT_CONFIG_VALUE_0='!f() { echo username=x-access-token; echo "password=$GITHUB_TOKEN"; }; f'
fi

again() { # WORDS: until they succeed, six times at most
    for pause in 1 2 4 8 8 0; do
        set +e
        (set -e && "$@")
        status=$?
        set -e
        [ $status = 0 ] && return
        sleep "$(shuf --head-count=1 --input-range="0-$pause")"
    done
    exit $status
}

record() { # FOLDER WORDS: commit what was added there, if anything was
    folder=$1 && shift
    git -C "$folder" diff --cached --quiet || git -C "$folder" commit --quiet "$@"
}

# Locks are the branch's own, and workflow files are those of its first commit, as a workflow's token
# may not change them (nothing runs them there). All else is the code's: what somebody pushes beside
# the locks is not measured. Each commit has one parent, as asv follows them.
follow() {
    git checkout --quiet --force --detach "$code"
    there=$(git ls-remote origin $stack)
    if [ -n "$there" ]; then
        git fetch --quiet --no-tags origin $stack
        git checkout --quiet --detach FETCH_HEAD
        git restore --source="$code" --staged --worktree -- . ':!.github/workflows'
        git checkout --quiet FETCH_HEAD -- ':(glob)apps/stacks/*.txt'
        record . --message="Code of $(git rev-parse --short=12 "$code")"
    fi
    send
}

send() {
    git push --quiet origin HEAD:$stack
    echo "commit=$(git rev-parse HEAD)" >>"${GITHUB_OUTPUT:-/dev/null}"
}

locks() {
    follow
    observatory lock
    git add apps/stacks
    moves=$(git diff --cached --unified=0 -- apps/stacks | sed -n 's/^\([-+][a-z0-9].*==[^ ]*\).*/\1/p')
    record . --message='Renew the locks' --message="$moves"
    send
    echo "$moves"
}

# A link in the branch is a file here, with the link's target.
clone() {
    rm -rf history
    origin=$(git remote get-url origin)
    there=$(git ls-remote origin refs/heads/$history)
    if [ -n "$there" ]; then
        git clone --quiet --depth=1 --no-tags --config=core.symlinks=false --branch=$history \
            -- "$origin" history
    else
        git init --quiet --initial-branch=$history history
        git -C history remote add origin "$origin"
    fi
    mkdir -p history/results
}

# Two that push other bytes under one name conflict: what was measured is never rewritten.
keep() {
    git -C history rev-parse --verify --quiet $history >/dev/null || return 0 # nothing yet
    git -C history push --quiet origin $history && return
    git -C history pull --quiet --rebase origin $history || git -C history rebase --abort
    return 1
}

case $1 in
code | locks)
    if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
        echo "expected a checkout without changes, as these would be lost" >&2
        exit 2
    fi
    if [ "$1" = code ]; then again follow; else again locks; fi
    ;;
history) again clone ;;
keep)
    git -C history add --all results
    record history --message="$2"
    again keep
    ;;
esac
