# The service and nothing that only developing needs. A second stage keeps build tools out of the image.

FROM python:3.13-slim AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.txt requirements-build.txt ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --quiet --require-hashes -r requirements-build.txt \
    && python -m venv /opt/signoff \
    && /opt/signoff/bin/pip install --quiet --require-hashes -r requirements.txt
COPY pyproject.toml LICENSE ./
COPY app app
COPY migrations migrations
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/signoff/bin/pip install --quiet --no-deps dist/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /srv/signoff signoff
WORKDIR /srv/signoff
COPY --from=build /opt/signoff /opt/signoff
COPY examples examples
# Workflows are found in the working folder: mount or copy your own there.
ENV PATH=/opt/signoff/bin:$PATH PYTHONPATH=/srv/signoff PYTHONUNBUFFERED=1
USER signoff
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=3)"]
CMD ["signoff", "serve", "--host", "0.0.0.0"]
