package main_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/open-nomad/open-nomad/"

// pkg is what the rules need to know of a package; paths are relative to the module.
type pkg struct {
	path    string
	files   []string
	imports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports,Dir", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var raw struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		p := pkg{path: strings.TrimPrefix(raw.ImportPath, module), imports: raw.Imports}
		for _, f := range raw.GoFiles {
			p.files = append(p.files, filepath.Join(raw.Dir, f))
		}
		list = append(list, p)
	}
	return list
}

// layers gives each package its layer; the longest matching prefix decides. "x/" means all below x.
var layers = map[string]int{
	"api": 0, "api/": 0, "internal/": 0,
	"jobspec": 1, "jobspec/": 1, "nomad/volumes/claim": 1, "nomad/volumes/commandtext": 1, "nomad/volumes/doctor": 1, "nomad/volumes/timeline": 1, "nomad/share": 1, "client/volumes/decide": 1, "nomad/scheduler": 1, "nomad/scheduler/": 1,
	"nomad/jobs/rules": 1, "nomad/jobs/diff": 1, "nomad/nodes/drain": 1, "nomad/allocs/row": 1, "nomad/acl/policy": 1,
	"nomad/login/claims": 1, "nomad/httpapi/view": 1, "nomad/services/registry": 1, "nomad/hostvolumes/hostview": 1, "nomad/login/provider": 2, "nomad/login/fetch": 2,
	"nomad/fsm": 2, "nomad/fsm/": 2, "nomad/state": 2, "nomad/access": 2, "nomad/identity": 2, "nomad/rpc": 2, "nomad/page": 2, "nomad/broker": 2, "nomad/plan": 2, "nomad/volumes/ledger": 2,
	"nomad/volumes/commands": 2, "nomad/volumes/pluginview": 2, "nomad/secrets": 2,
	"nomad/jobs/ledger": 2, "nomad/deployments/tally": 2,
	"client/link": 2, "client/store": 2, "client/steps": 2, "client/dirs": 2, "client/dirquota": 2, "client/diskpages": 2, "client/diskuse": 2, "client/logs": 2, "client/stats": 2,
	"client/csiplugins": 2, "client/volumes/journal": 2, "client/mounthealth": 2, "client/workqueue": 2, "client/checks": 2, "client/fingerprint": 2, "client/gc": 2, "client/identities": 2, "client/networks": 2, "client/networks/cni": 2, "client/secrets": 2, "client/artifacts": 2, "client/templates": 2, "plugins/": 2,
	"nomad/": 3, "client/": 3,
	"nomad": 4, "client": 4, "nomad/httpapi": 4, "nomad/httpapi/": 4, "nomad/sim": 4, "nomad/volumes/volumestest": 4,
	"command": 5, "command/": 5,
	"cmd/": 6,
}

func layerOf(path string) int {
	best, layer := "", -1
	for prefix, l := range layers {
		if (path == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(path, prefix)) && len(prefix) >= len(best) {
			best, layer = prefix, l
		}
	}
	return layer
}

// wireBetween are imports within a layer that are meant: an engine that another engine carries.
var sameLayer = []string{
	"nomad/volumes/claim>nomad/volumes/commandtext", "nomad/volumes/doctor>nomad/volumes/commandtext", "nomad/fsm>nomad/state", "nomad/fsm/>nomad/fsm", "nomad/fsm/>nomad/fsm/", "nomad/fsm/>nomad/state", "nomad/rpc>nomad/state", "nomad/rpc>nomad/access", "nomad/rpc>nomad/identity", "nomad/access>nomad/state", "nomad/access>nomad/identity", "nomad/identity>nomad/state", "nomad/page>nomad/", "nomad/plan>", "nomad/broker>", "nomad/volumes/ledger>nomad/state", "nomad/volumes/commands>nomad/", "nomad/volumes/pluginview>nomad/state", "nomad/secrets>nomad/state", "nomad/services/registry>jobspec/taskenv",
	"nomad/jobs/ledger>nomad/", "nomad/login/provider>nomad/login/fetch", "nomad/deployments/tally>nomad/state",
	"plugins/>plugins/", "client/fingerprint>plugins/", "client/fingerprint>client/secrets", "client/dirs>client/dirquota",
	"client/csiplugins>plugins/", "client/volumes/journal>client/csiplugins", "client/volumes/journal>plugins/", "client/networks>client/networks/cni", "client/mounthealth>plugins/", "client/mounthealth>client/workqueue", "client/workqueue>plugins/", "client/stats>", "client/gc>", "client/logs>", "nomad/sim>", "nomad/httpapi>nomad/httpapi/", "nomad/httpapi/>nomad/httpapi/endpoint", "nomad/httpapi/>nomad/httpapi/encode", "nomad/httpapi/>nomad/httpapi/view", "command>command/", "command/>command/",
	"jobspec>jobspec/", "jobspec/files>jobspec/", "jobspec/examples>jobspec", "jobspec/expr>jobspec/bounds", "jobspec/expr>jobspec/nesting", "jobspec/nesting>jobspec/bounds", "jobspec/hclspec>jobspec/", "jobspec/hcl1>jobspec/tree", "jobspec/jsonspec>jobspec/", "jobspec/volumespec>jobspec/", "nomad/scheduler>nomad/", "nomad/scheduler/>nomad/", "nomad/jobs/rules>jobspec/", "nomad/acl/policy>jobspec/", "api/>api", "cmd/>",
}

func allowedSideways(from, to string) bool {
	return slices.ContainsFunc(sameLayer, func(rule string) bool {
		a, b, _ := strings.Cut(rule, ">")
		return matches(from, a) && (b == "" || matches(to, b))
	})
}

func matches(path, rule string) bool {
	return path == rule || strings.HasSuffix(rule, "/") && strings.HasPrefix(path, rule)
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range packages(t) {
		from := layerOf(p.path)
		if from < 0 {
			t.Errorf("%s has no layer: see docs of the layout", p.path)
			continue
		}
		for _, imp := range p.imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			switch l := layerOf(to); {
			case l > from:
				t.Errorf("%s (L%d) imports %s (L%d): imports point downwards", p.path, from, to, l)
			case l == from && from == 3:
				t.Errorf("%s imports %s: services never import services", p.path, to)
			case l == from && from > 0 && !allowedSideways(p.path, to):
				t.Errorf("%s imports %s in the same layer", p.path, to)
			}
		}
	}
}

func TestServerAndClientAreApart(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			side := func(path string) string { return strings.SplitN(path, "/", 2)[0] }
			if a, b := side(p.path), side(to); a == "nomad" && b == "client" || a == "client" && b == "nomad" {
				t.Errorf("%s imports %s: server and client never import each other", p.path, to)
			}
			if side(p.path) == "command" && !strings.HasPrefix(p.path, "command/agent") && (side(to) == "nomad" || side(to) == "client") {
				t.Errorf("%s imports %s: the command line reaches the cluster through api/rest", p.path, to)
			}
		}
	}
}

// support reports whether a package, by its name, serves tests only.
func support(path string) bool {
	return strings.HasSuffix(path, "test") || slices.Contains([]string{"fake", "suite", "model"}, filepath.Base(path)) ||
		strings.HasPrefix(path, "cmd/") && path != "cmd/nomad" || matches(path, "nomad/sim") || matches(path, "nomad/sim/")
}

// ownPrograms are programs that are built into nomad, or used to build it.
const ownPrograms = "plugins/driver/supervise/"

// inPlugins are an external driver and a device plugin: what they link is part of such programs.
var inPlugins = []string{"./plugins/driver/example", "./plugins/device/example"}

func TestPackagesForTestsAreNamedSo(t *testing.T) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "./cmd/nomad", "./" + ownPrograms + "..."}, inPlugins...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	shipped := strings.Fields(string(out))
	for _, p := range packages(t) {
		switch ships := slices.Contains(shipped, module+p.path); {
		case ships && support(p.path):
			t.Errorf("%s is for tests by its name and is part of the nomad program", p.path)
		case !ships && !support(p.path):
			t.Errorf("%s is not part of the nomad program: give a package for tests a name that ends with test", p.path)
		}
	}
}

// homes says where third-party names may appear.
var homes = map[string][]string{
	"github.com/hashicorp/raft":                   {"nomad/fsm", "nomad/fsm/"},
	"github.com/hashicorp/raft-wal":               {"nomad/fsm/disk"},
	"github.com/hashicorp/raft-autopilot":         {"nomad/fsm/consensus"},
	"github.com/hashicorp/go-memdb":               {"nomad/state"},
	"github.com/hashicorp/serf":                   {"nomad/member"},
	"github.com/hashicorp/go-plugin":              {"plugins/program"},
	"github.com/hashicorp/memberlist":             {"nomad/member"},
	"google.golang.org/grpc":                      {"api/wire/transport", "nomad/rpc", "client/link", "client/checks", "plugins/", "nomad/volumes/volumestest"},
	"github.com/hashicorp/hcl/hcl":                {"jobspec/hcl1"},
	"github.com/hashicorp/hcl/v2":                 {"jobspec", "jobspec/nesting", "jobspec/expr", "jobspec/hclspec"},
	"github.com/container-storage-interface/spec": {"plugins/csi", "plugins/csi/"},
	"go.etcd.io/bbolt":                            {"client/store"},
	"github.com/urfave/cli/v3":                    {"command", "command/", "cmd/nomad"},
	"github.com/coreos/go-oidc/v3":                {"nomad/login/provider"},
	"github.com/go-jose/go-jose/v4":               {"nomad/identity", "nomad/login/provider", "nomad/login/providertest"},
	"github.com/moby/moby":                        {"plugins/driver/docker", "plugins/driver/docker/"},
	"github.com/containerd/errdefs":               {"plugins/driver/docker", "plugins/driver/docker/"},
	"github.com/distribution/reference":           {"plugins/driver/docker/"},
	"golang.org/x/oauth2":                         {"nomad/login/provider"},
	"github.com/coder/websocket":                  {"api/rest", "nomad/httpapi/exec"},
	"github.com/vishvananda":                      {"client/networks"},
	"golang.org/x/term":                           {"command/terminal", "command/session"},
	"charm.land/bubbletea/v2":                     {"command/watch"},
	"github.com/charmbracelet":                    {"command/watch", "command/session"},
	"github.com/muesli/cancelreader":              {"command/terminal"},
	"github.com/hashicorp/go-metrics":             {"internal/metrics"},
	"github.com/prometheus":                       {"internal/metrics"},
	"go.opentelemetry.io":                         {"internal/tracing"},
}

func TestThirdPartyNamesStayInTheirPackages(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.imports {
			for lib, places := range homes {
				if imp != lib && !strings.HasPrefix(imp, lib+"/") {
					continue
				}
				if !slices.ContainsFunc(places, func(place string) bool { return matches(p.path, place) }) {
					t.Errorf("%s imports %s, which belongs to %v", p.path, imp, places)
				}
			}
			if imp == "testing" && !strings.HasSuffix(p.path, "/suite") && p.path != "api/sample" && p.path != "nomad/sim" {
				t.Errorf("%s imports testing outside of tests", p.path)
			}
		}
	}
}

// isCore reports whether a package only decides.
func isCore(path string) bool {
	return layerOf(path) == 1 && path != "jobspec/examples" && path != "jobspec/files"
}

func TestCoresOnlyDecide(t *testing.T) {
	banned := []string{"context", "os", "net", "sync", "math/rand", "math/rand/v2", "log", "log/slog", "github.com/hashicorp/go-hclog"}
	for _, p := range packages(t) {
		if !isCore(p.path) {
			continue
		}
		for _, imp := range p.imports {
			if slices.Contains(banned, imp) {
				t.Errorf("core %s imports %s", p.path, imp)
			}
		}
		for _, f := range p.files {
			clockCalls(t, f)
		}
	}
}

// clockCalls reports uses of the clock: of package time cores take types and arithmetic only.
func clockCalls(t *testing.T, file string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(
			[]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}, sel.Sel.Name) {
			t.Errorf("%s: a core asks the clock (time.%s)", file, sel.Sel.Name)
		}
		return true
	})
}

func TestAPIIsDataOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.path != "api" {
			continue
		}
		for _, f := range p.files {
			if generated(f) {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range parsed.Imports {
				if strings.Contains(imp.Path.Value, ".") {
					t.Errorf("%s imports %s: api has the standard library only", f, imp.Path.Value)
				}
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					if lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line - 1; lines > 10 {
						t.Errorf("%s: %s has %d lines, api allows 10", f, fn.Name.Name, lines)
					}
				}
			}
		}
	}
}

// reasons lists files above 500 lines with why they are.
var reasons = map[string]string{}

func TestFilesAreShort(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), "zz_") || strings.HasSuffix(path, "_test.go") || reasons[path] != "" {
			return nil
		}
		body, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if n := strings.Count(string(body), "\n"); n > 500 {
			t.Errorf("%s has %d lines: split it or give a reason", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
