# A bare Debian 12 on which the two commands of README.md run.  docker build -t opc . && docker run --rm opc
# SPDX-License-Identifier: Apache-2.0
FROM debian:12
WORKDIR /opc
# The packages first: they change less often than the sources.
COPY tools/dev/setup.sh tools/dev/setup.sh
RUN tools/dev/setup.sh --tests && rm -rf /var/lib/apt/lists/*
COPY . .
RUN tools/demo.sh
CMD ["tools/test.sh"]
