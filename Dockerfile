# The image of the action. GitHub's runner builds it from the root of the repository, without arguments.
# A build that can reach no registry gives images of its own for the three bases (see .ci/engine).
ARG RUST_IMAGE=docker.io/library/rust:1.99-slim-bookworm@sha256:2c3a22f0a5533ea2dd5a16627bc841228151faa2d4de2644ac9987e4a2f1f2fa
ARG NODE_IMAGE=docker.io/library/node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251

# Builder and runtime are of the same Debian release: the binary needs that libc and nothing else.
FROM ${RUST_IMAGE} AS build
WORKDIR /build
# The dependencies in a layer of their own, built for an empty program: a change of the source does not build them anew.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && echo 'fn main() {}' >src/main.rs && : >src/lib.rs \
    && cargo build --release --locked --bin rooda
COPY prompts prompts
COPY src src
# The copied files may be older than the empty program; cargo goes by the time.
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin rooda

FROM ${NODE_IMAGE} AS node

FROM ${BASE_IMAGE}
# Why each is here: git and ca-certificates for rooda itself; libstdc++6 and libatomic1 for node; the others because agents
# reach for them in nearly every session. A compiler, ssh and the like are for the action's `setup` input.
# The versions are those of the Debian release: it keeps no older ones, so a pinned one would soon be gone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates \
        curl \
        git \
        jq \
        less \
        libatomic1 \
        libstdc++6 \
        make \
        patch \
        procps \
        python3 \
        ripgrep \
        unzip \
        xz-utils \
    && rm -rf /var/lib/apt/lists/*
# The agents' programs come from npm, at run time.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
COPY image/sudo /usr/local/bin/sudo
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/rooda/
COPY --from=build /build/target/release/rooda /usr/local/bin/rooda
# Each program is called once: a library that is missing ends the build here, and not a user's job.
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
    && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
    && node --version && npm --version && rooda --version \
    && rm -rf /root/.npm /tmp/node-compile-cache
ENV LANG=C.UTF-8

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rooda" \
      org.opencontainers.image.description="Runs AI coding CLIs in OODA loops, unattended, as a GitHub Action" \
      org.opencontainers.image.source="https://github.com/org/rooda-action" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# No USER: rooda must start as root, and drops the agent to the owner of the workspace itself.
# No shell in front: it would keep signals from rooda, and dash drops variables such as `INPUT_MAX-ITERATIONS`.
ENTRYPOINT ["/usr/local/bin/rooda", "action"]
