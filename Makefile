# Everything here is a step of .ci/run; see CONTRIBUTING.md.

.PHONY: check test fuzz vuln api licenses release

check:
	.ci/run tools format tidy vet staticcheck lint fix test

test:
	go test -race -shuffle=on ./...

# make fuzz FUZZTIME=1m
fuzz:
	.ci/run fuzz

vuln:
	.ci/run vuln

# Rewrites the recorded surface of the public packages; read the diff.
api:
	go test ./internal/archtest -run TestAPI -update

# Rewrites the licence texts that `pilotgo version --licenses` shows.
licenses:
	go test ./internal/licenses -update

# make release VERSION=v0.1.0 builds the archives of all systems into dist.
release:
	.ci/release $(VERSION)
