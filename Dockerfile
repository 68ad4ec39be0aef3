# Two images from one file: `services` (API, runner, Ray head, dashboard; torch on the CPU is enough) and `worker` (CUDA).
FROM python:3.11-slim AS base
WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY workloads workloads
COPY tuner tuner
COPY db db
COPY services services
COPY dashboard dashboard
COPY profiles profiles
RUN useradd --create-home captune && mkdir /data && chown captune /data
ENV PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/numba

FROM base AS services
RUN pip install --no-cache-dir -c requirements.lock -e '.[worker,server,dashboard]'
USER captune

FROM base AS worker
RUN pip install --no-cache-dir -c requirements.lock -e '.[worker]'
USER captune
