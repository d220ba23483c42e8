# duetbench with all that it needs. `make image` builds it from dist/; docs/applications.md runs it.
ARG BASE=debian:13-slim
FROM ${BASE}

# git says what is measured. Valgrind counts instructions, and with a compiler it also finds functions.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
    ca-certificates gcc git libc6-dev python3 python3-venv valgrind \
 && rm -rf /var/lib/apt/lists/* \
 && git config --system --add safe.directory '*'

# What somebody mounts there is used again: environments, results, what duetbench has learned.
ENV PATH=/opt/duetbench/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV UV_PYTHON_INSTALL_DIR=/opt/python
ENV XDG_CACHE_HOME=/var/lib/duetbench/cache
ENV XDG_STATE_HOME=/var/lib/duetbench/state

# The wheel, whose packages are those of the lock, by their hashes; the pinned uv installs them.
COPY requirements.txt /opt/build/
COPY scripts/bootstrap.py /opt/build/scripts/
COPY dist/*.whl /opt/build/dist/
RUN cd /opt/build \
 && sha256sum dist/*.whl | sed 's/\(.*\)  \(.*\)/.\/\2 --hash=sha256:\1/' >wheel.txt \
 && python3 scripts/bootstrap.py venv --quiet /opt/duetbench \
 && python3 scripts/bootstrap.py pip install --quiet --no-cache --require-hashes \
    --python /opt/duetbench/bin/python --constraints requirements.txt --requirements wheel.txt \
 && rm -rf /opt/build "$XDG_CACHE_HOME"

# Interpreters, whose checksums uv knows, and the load generator, whose checksum duetbench knows.
ARG PYTHONS="3.11 3.12 3.13 3.14 3.14t"
RUN for python in $PYTHONS; do uv python install --quiet --no-bin "$python" || exit 1; done \
 && duetbench setup

WORKDIR /repo
ENTRYPOINT ["duetbench"]
