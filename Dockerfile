# Two images from one file: `services` (API, runner, Ray head, dashboard; torch on the CPU is enough) and `worker` (CUDA).
# The worker has no CUDA base image: torch's own wheels bring CUDA, the container toolkit brings the driver, and Ray wants
# the same Python on every node, which a CUDA base image does not have.
FROM python:3.11.14-slim-bookworm AS base
WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY workloads workloads
COPY tuner tuner
COPY db db
COPY services services
COPY dashboard dashboard
COPY profiles profiles
RUN useradd --create-home --uid 10001 captune && mkdir /data && chown captune /data
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR=/tmp/numba
VOLUME /data

FROM base AS services
RUN pip install --no-cache-dir -c requirements.lock -e '.[worker,server,dashboard,otel]'
USER captune
# For `docker run` alone; docker-compose.yml has one for each service.
HEALTHCHECK --interval=30s --timeout=5s CMD python -c "import services.settings"

FROM base AS worker
RUN pip install --no-cache-dir -c requirements.lock -e '.[worker]'
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER captune
HEALTHCHECK --interval=30s --timeout=30s CMD python -c "import torch; assert torch.cuda.is_available()"
