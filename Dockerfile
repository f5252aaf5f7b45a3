# The official PostgreSQL image with fencing in it:
#
#     docker build --build-arg PG_MAJOR=17 --tag postgres-fencing:17 .
#     docker run --env POSTGRES_PASSWORD=secret postgres-fencing:17
#
# PG_MAJOR and DEBIAN_CODENAME choose an image of https://hub.docker.com/_/postgres. CREATE EXTENSION is left to you.
ARG PG_MAJOR=17
ARG DEBIAN_CODENAME=bookworm

# The compiler stays in this stage.
FROM postgres:${PG_MAJOR}-${DEBIAN_CODENAME} AS build
ARG PG_MAJOR
RUN apt-get update \
	&& apt-get install -y --no-install-recommends g++ make "postgresql-server-dev-${PG_MAJOR}" \
	&& rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile fencing.control ./
COPY src/ src/
RUN make PG_CONFIG="/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config" \
	&& make PG_CONFIG="/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config" DESTDIR=/installed install

FROM postgres:${PG_MAJOR}-${DEBIAN_CODENAME}
COPY --from=build /installed/ /
