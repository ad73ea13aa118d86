# Penstock, compiled, as a user without rights. From the root of the repository:
#
#     docker build --tag penstock .
#     docker run --publish 127.0.0.1:5672:5672 --publish 127.0.0.1:15672:15672 \
#         --volume penstock:/var/lib/penstock \
#         --volume ./definitions.json:/etc/penstock/definitions.json:ro \
#         penstock --definitions /etc/penstock/definitions.json
#
# Inside the container it listens on all addresses. The default user `guest` may log in from loopback
# only, and whoever comes from outside does not: name a user of yours in the definitions.

FROM python:3.12-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in LICENSE README.md constraints.txt ./
COPY tools/toolchain.py tools/toolchain.py
COPY src src
# Without a compiler the build must fail, and not fall back to the slow one.
RUN python -m venv /opt/penstock \
    && PENSTOCK_REQUIRE_COMPILED=1 \
       PIP_CONSTRAINT=/source/constraints.txt PIP_BUILD_CONSTRAINT=/source/constraints.txt \
       /opt/penstock/bin/pip install --no-cache-dir .

FROM python:3.12-slim-bookworm
RUN groupadd --system --gid 5672 penstock \
    && useradd --system --uid 5672 --gid penstock --home-dir /var/lib/penstock --shell /usr/sbin/nologin penstock \
    && install --directory --owner penstock --group penstock --mode 0700 /var/lib/penstock
COPY --from=build /opt/penstock /opt/penstock
USER penstock
VOLUME /var/lib/penstock
EXPOSE 5672 15672
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/penstock/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:15672/health/ready', timeout=4)"]
ENTRYPOINT ["/opt/penstock/bin/penstock", "serve", "--host", "0.0.0.0", "--port", "5672", "--http-port", "15672", "--data", "/var/lib/penstock", "--log-format", "json"]
CMD []
