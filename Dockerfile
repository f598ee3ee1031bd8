# The image of Coppice: one static program, nothing else. `make image` builds the program and, without Docker, an OCI
# image of the same content; this file is for those who build with Docker:
#   make static-binary && docker build -t coppice .
FROM scratch
COPY dist/coppice /coppice
USER 65532:65532
ENTRYPOINT ["/coppice"]
