# README names two targets: make demo and make test. The others are for those who work here.
SHELL := /bin/bash
GO ?= go
# Builds, linters and tests share what they compile: all use these flags, and only the race detector needs C.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export CGO_ENABLED := 0
RACE := CGO_ENABLED=1 $(GO) test -race -tags invariants
BIN := bin/nomad
SUPERVISE := plugins/driver/supervise/bin/nomad-supervise
ARTIFACT := client/artifacts/bin/nomad-artifact.gz
TEMPLATE := client/templates/bin/nomad-template.gz
KMS := nomad/keyring/kms/bin/nomad-kms.gz
MODULES := cmd/nomad/e2e cmd/nomad/e2e/sdk client/artifacts/nomad-artifact client/templates/nomad-template nomad/keyring/kms/nomad-kms tools/protogen
E2E_TABLE := bin/e2e-table.txt
TESTLOG := $(CURDIR)/bin/testlog
ROOT := $(filter 0,$(shell id -u))
# When root runs the tests, a test that skips itself and is not on the list is an error.
LOGGED = $(TESTLOG) -expected $(CURDIR)/cmd/nomad/testlog/expected.txt $(if $(ROOT),-strict)
VERSION ?= 0.1.0
LDFLAGS := -s -w -X github.com/open-nomad/open-nomad/command.Version=$(VERSION)
SEEDS ?= 5000
CLUSTER_SEEDS ?= 250
FUZZ ?= 30s
COUNT ?= 5
MUTATE ?= nomad/volumes/claim nomad/scheduler/rank nomad/plan
TIMES ?= 20
RUN ?= .
IN ?= ./...
ATONCE ?= $(shell expr $$(nproc) + 1)
TOOL := $(GO) tool -modfile=tools/go.mod
PKGS = $$($(GO) list ./... | grep -v /e2e)
# The race detector runs where goroutines meet, and in make soak over the simulations, which it makes ten times slower.
SIMS := ./nomad/sim/... ./nomad/scheduler/model
PLAIN := $$($(GO) list ./cmd/... ./internal/... ./jobspec/... | grep -v /e2e) $(SIMS)
RACED := $$($(GO) list ./plugins/... ./api/... ./nomad/... ./client/... ./command/... | grep -v -e /open-nomad/nomad/sim -e /scheduler/model -e /csi/fake -e /csi/hostpath)
# The CSI sanity tests use ginkgo, which refuses -parallel.
SANITY := ./plugins/csi/fake ./plugins/csi/hostpath
# Fault scenarios that make driven runs with tasks of other drivers.
DRIVEN ?= ^(TestFault(01|02|03|04|05|08|09|13|15|16|17)|TestNothingIsWrittenBack)
SOAKED := api nomad client plugins command internal jobspec
SOAK_SEEDS := 1500
SOAK_CLUSTER_SEEDS := 75

.PHONY: build check test unit tools e2e sdk soak quotas driven flake sim bench fuzz mutate cover demo pictures generate supervise clean

build: supervise
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/nomad

# The supervising process is a binary of its own, carried inside nomad.
supervise: $(ARTIFACT) $(TEMPLATE) $(KMS)
	@mkdir -p $(dir $(SUPERVISE))
	$(GO) build -ldflags '-s -w' -o $(SUPERVISE) ./plugins/driver/supervise/nomad-supervise

# The program that downloads artifacts is a module of its own: nomad does not link its libraries.
$(ARTIFACT): $(wildcard client/artifacts/nomad-artifact/*.go client/artifacts/nomad-artifact/go.*)
	@mkdir -p $(dir $@)
	cd client/artifacts/nomad-artifact && $(GO) build -buildvcs=false -ldflags '-s -w' -o ../bin/nomad-artifact .
	gzip -9 -n -f $(basename $@)

# The program that renders templates is a module of its own: nomad does not link its library.
$(TEMPLATE): $(wildcard client/templates/nomad-template/*.go client/templates/nomad-template/go.*)
	@mkdir -p $(dir $@)
	cd client/templates/nomad-template && $(GO) build -buildvcs=false -ldflags '-s -w' -o ../bin/nomad-template .
	gzip -9 -n -f $(basename $@)

# The program that calls external key services is a module of its own: nomad does not link their libraries.
$(KMS): $(wildcard nomad/keyring/kms/nomad-kms/*.go nomad/keyring/kms/nomad-kms/go.*)
	@mkdir -p $(dir $@)
	cd nomad/keyring/kms/nomad-kms && $(GO) build -buildvcs=false -ldflags '-s -w' -o ../bin/nomad-kms .
	gzip -9 -n -f $(basename $@)

check: supervise
	@out=$$($(TOOL) gofumpt -l $$(find . -name '*.go')) || exit 1; \
	  if [ -n "$$out" ]; then echo "not formatted (run gofumpt -w):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) golangci-lint run
	@$(TOOL) govulncheck -version >/dev/null 2>&1; \
	  out=$$(timeout 90 $(TOOL) govulncheck ./... 2>&1); status=$$?; case "$$status $$out" in \
	  0*) ;; \
	  124*|*"fetching vulnerabilities"*) echo "left out: the database of known vulnerabilities cannot be reached";; \
	  *) echo "$$out"; exit 1;; esac
	$(GO) mod tidy -diff
	for m in tools $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	for m in $(MODULES); do (cd $$m && $(GO) vet ./...) || exit 1; done
	$(GO) test -vet off ./cmd/nomad

# What repeats itself for long is in make soak.
test: unit e2e sdk

# Every package once: with the race detector where goroutines meet, without it elsewhere. make check has vetted them. Many
# tests wait, so one package more than there are processors is tested at a time, and more tests of a package. All parts run, also
# when one fails.
unit: supervise tools $(TESTLOG)
	@set -o pipefail; status=0; \
	  $(GO) test -json -vet off -p $(ATONCE) -timeout 15m $(PLAIN) | $(LOGGED) || status=$$?; \
	  $(RACE) -json -vet off -p $(ATONCE) -parallel 4 -timeout 15m $(RACED) | $(LOGGED) -run race || status=$$?; \
	  $(RACE) -json -vet off -p $(ATONCE) -timeout 15m $(SANITY) | $(LOGGED) -run race || status=$$?; \
	  exit $$status

# Shows what go test shows, and counts what was skipped.
$(TESTLOG): $(wildcard cmd/nomad/testlog/*.go)
	$(GO) build -o $@ ./cmd/nomad/testlog

# Installs what the tests need, as root.
tools:
	@.ci/tools

e2e: build tools $(TESTLOG)
	@rm -f $(E2E_TABLE)
	@set -o pipefail; if [ "$(ROOT)" ]; then cd cmd/nomad/e2e && NOMAD_BIN=$(CURDIR)/$(BIN) E2E_TABLE=$(CURDIR)/$(E2E_TABLE) \
	  $(GO) test -json -vet off -timeout 25m -count=1 -p $(ATONCE) -parallel $(ATONCE) ./... | $(LOGGED); status=$$?; \
	  sort $(CURDIR)/$(E2E_TABLE) 2>/dev/null; exit $$status; \
	else echo "left out: the end-to-end tests with real mounts need root"; fi

# The tests of the public Go SDK, against our program: a minute.
sdk: build tools $(TESTLOG)
	@set -o pipefail; if [ "$(ROOT)" ]; then cd cmd/nomad/e2e/sdk && NOMAD_BIN=$(CURDIR)/$(BIN) $(GO) test -json -vet off -timeout 12m -count=1 ./... | $(LOGGED); \
	else echo "left out: the tests of the SDK need root"; fi

# The long runs: the simulations, how cost grows, and every test that repeats itself (those of the files that use soaktest;
# SOAK=1 by hand lets them repeat themselves more often).
soak: build tools $(TESTLOG)
	$(MAKE) sim SEEDS=$(SOAK_SEEDS) CLUSTER_SEEDS=$(SOAK_CLUSTER_SEEDS)
	@set -o pipefail; $(RACE) -json -vet off -timeout 15m $(SIMS) | $(LOGGED) -run race
	@set -o pipefail; export SOAK=half NOMAD_BIN=$(CURDIR)/$(BIN); tests() { grep -rl --include='*_test.go' soaktest $$* | xargs sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' | paste -sd '|'; }; \
	  $(GO) test -json -vet off -timeout 20m -run "^($$(tests $(SOAKED)))$$" $$(grep -rl --include='*_test.go' soaktest $(SOAKED) | xargs -n 1 dirname | sort -u | sed 's,^,./,') | $(LOGGED) -run soak && \
	  if [ "$(ROOT)" ]; then cd cmd/nomad/e2e && $(GO) test -json -vet off -timeout 25m -count=1 -p 2 -run "^($$(tests .))$$" ./... | $(LOGGED) -run soak; fi

# The quotas of ext4 and xfs, in a virtual machine with a kernel of Debian: 30 s, after a minute that installs and downloads.
QUOTA_KERNEL := $(CURDIR)/bin/kernel
quotas: tools
	@command -v qemu-system-x86_64 >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86
	@[ -d $(QUOTA_KERNEL)/boot ] || { mkdir -p $(QUOTA_KERNEL) && cd $(QUOTA_KERNEL) && \
	  apt-get download -qq "$$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -n 1)" && dpkg-deb -x linux-image-*.deb .; }
	QUOTA_KERNEL=$(QUOTA_KERNEL) $(GO) test -tags vm -vet off -count=1 -timeout 10m -run TestInAVirtualMachine ./client/dirquota

# Fault scenarios with tasks of exec and of docker.
driven: build tools $(TESTLOG)
	@set -o pipefail; cd cmd/nomad/e2e && for d in exec docker; do NOMAD_BIN=$(CURDIR)/$(BIN) E2E_DRIVER=$$d \
	  $(GO) test -json -vet off -timeout 25m -count=1 -run '$(DRIVEN)' ./faults | $(LOGGED) -run $$d || exit 1; done

# Every end-to-end test TIMES times while two loops keep two processors busy: none may fail. RUN names tests, IN packages.
flake: build $(TESTLOG)
	@trap 'kill $$(jobs -p)' EXIT; set -o pipefail; for n in 1 2; do (while :; do :; done) & done; \
	  cd cmd/nomad/e2e && NOMAD_BIN=$(CURDIR)/$(BIN) $(GO) test -json -vet off -timeout 0 -p 1 -count $(TIMES) -run '$(RUN)' $(IN) | $(LOGGED)

sim:
	GOGC=off GOMEMLIMIT=4GiB $(GO) test -vet off -timeout 60m ./nomad/sim -count=1 -v -run Simulation -seeds $(SEEDS) -steps 500
	GOGC=800 $(GO) test -vet off -timeout 60m ./nomad/sim/cluster -count=1 -v -run 'Simulation|Planted' -seeds $(CLUSTER_SEEDS) -planted 300 -steps 500

# All figures, COUNT times: bin/bench.txt as the go tool prints them (for benchstat), bin/bench.json with the medians, and
# docs/benchmarks.md with the medians beside the bars of cmd/nomad/bench/bars.tsv. A benchmark that fails and a bar without a
# figure are errors. COUNT=1 takes a quarter of an hour.
bench: build tools
	@if [ -z "$(ROOT)" ]; then echo "the figures of nodes and volumes need root"; exit 1; fi
	@set -o pipefail; export NOMAD_BIN=$(CURDIR)/$(BIN); bench() { $(GO) test -timeout 60m -vet off -run '^$$' -bench . -count $(COUNT) -benchtime "$$@"; }; \
	  { bench 0.5s ./nomad/scheduler/... ./nomad/plan ./nomad/state && \
	  bench 1x $$($(GO) list ./... | grep -v -e /e2e -e /nomad/scheduler -e /nomad/plan -e /nomad/state) && \
	  cd cmd/nomad/e2e && bench 1x ./bench; } | tee bin/bench.txt; status=$$?; \
	  $(GO) run ./cmd/nomad/bench/table -bars cmd/nomad/bench/bars.tsv -json bin/bench.json -doc docs/benchmarks.md < bin/bench.txt && exit $$status

# Each target for a while: every decoder and every renderer of the command line has one. It compiles most packages again, so
# it is not part of soak; make unit runs the inputs that each target begins with.
fuzz:
	@for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
	  list=$$($(GO) test -vet off -list '^Fuzz' $$p) || { echo "$$list"; exit 1; }; \
	  for f in $$(echo "$$list" | grep ^Fuzz); do $(GO) test -vet off -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZ) $$p || exit 1; done; done

# Small changes of the code of the packages MUTATE, one after the other: the report names those that no test of the package
# notices (LIVED).
mutate: supervise
	@for p in $(MUTATE); do echo "== $$p"; $(TOOL) gremlins unleash --timeout-coefficient 20 $$p || exit 1; done

cover: supervise
	$(GO) test -coverprofile coverage.out $(PKGS)
	$(GO) tool cover -func coverage.out | tail -n 1

demo: build
	@./docs/demo/run.sh $(BIN)

# The pictures of docs/ui.md, as root.
pictures: build tools
	@mkdir -p docs/pictures
	cd cmd/nomad/e2e && PICTURES=$(CURDIR)/docs/pictures NOMAD_BIN=$(CURDIR)/$(BIN) $(GO) test -vet off -count=1 -tags pictures -run TestPictures ./ui

generate:
	$(GO) generate ./...

clean:
	rm -rf bin $(SUPERVISE) $(ARTIFACT) $(TEMPLATE) $(KMS) coverage.out
