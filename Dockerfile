# The server, with the embedded data. The same file builds a checkout and the folder of `make space`.
#
#   docker build -t sql-env .
#   docker run -p 8000:8000 sql-env                        # everybody who reaches the port may play
#   docker run -p 8000:8000 -e SQL_ENV_TOKEN=… sql-env     # only who knows the token
#
# It answers to addresses, localhost and the names of Spaces; for others end with the whole command
# and one more --allow-host.

FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE DATA_LICENSE ./
COPY sql_env ./sql_env
COPY data/questions ./data/questions
COPY data/databases ./data/databases
RUN python -m venv /opt/venv
RUN /opt/venv/bin/pip install --no-cache-dir --constraint constraints.txt ".[server]"

FROM python:3.11-slim
COPY --from=build /opt/venv /opt/venv
RUN useradd --uid 1000 --create-home player
USER 1000
WORKDIR /home/player
# OpenEnv's own page would lie where ours does, and `openenv push` switches it on unless told.
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 ENABLE_WEB_INTERFACE=false
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["sql-env", "serve", "--host", "0.0.0.0", "--port", "8000", "--allow-unauthenticated", "--allow-host", "*.hf.space", "--rewards", "end"]
