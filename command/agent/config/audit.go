package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Audit is the log of requests to the HTTP API.
type Audit struct {
	Enabled bool                   `hcl:"enabled"`
	Sinks   map[string]AuditSink   `hcl:"sink"`
	Filters map[string]AuditFilter `hcl:"filter"`
}

// AuditSink is a file of the audit log. Empty fields have defaults, see [Audit.Files].
type AuditSink struct {
	Type           string        `hcl:"type"`
	Format         string        `hcl:"format"`
	Guarantee      string        `hcl:"delivery_guarantee"`
	Path           string        `hcl:"path"`
	Mode           string        `hcl:"mode"`
	RotateBytes    int           `hcl:"rotate_bytes"`
	RotateDuration time.Duration `hcl:"rotate_duration"`
	// RotateMaxFiles is how many closed files are kept: 0 keeps all, less keeps none.
	RotateMaxFiles int `hcl:"rotate_max_files"`
}

// AuditFilter drops the events that match one entry of each list.
type AuditFilter struct {
	Type       string   `hcl:"type"`
	Endpoints  []string `hcl:"endpoints"`
	Stages     []string `hcl:"stages"`
	Operations []string `hcl:"operations"`
}

// Words of the audit log.
const (
	sinkFile, formatJSON  = "file", "json"
	enforced, bestEffort  = "enforced", "best-effort"
	filterHTTP, auditFile = "HTTPEvent", "audit.json"
)

// auditValues checks the values of the block where they are written.
var auditValues = map[string]func(reflect.Value, tree.Value) error{
	"audit.sink.type":               oneOf(sinkFile),
	"audit.sink.format":             oneOf(formatJSON),
	"audit.sink.delivery_guarantee": oneOf(enforced, bestEffort),
	"audit.sink.path": checked(func(v reflect.Value) error {
		if !filepath.IsAbs(v.String()) {
			return fmt.Errorf("%q must be absolute", v.String())
		}
		return nil
	}),
	"audit.sink.mode": checked(func(v reflect.Value) error {
		if mode, err := strconv.ParseUint(v.String(), 8, 32); err != nil || mode > 0o777 || mode&0o200 == 0 {
			return fmt.Errorf("%q is not a mode such as \"0600\" with which the agent may write", v.String())
		}
		return nil
	}),
	"audit.sink.rotate_bytes":    checked(notNegative),
	"audit.sink.rotate_duration": checked(notNegative),
	"audit.filter.type":          oneOf(filterHTTP),
	"audit.filter.stages":        oneOf("OperationReceived", "OperationComplete", "*"),
	"audit.filter.operations":    oneOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "*"),
	"audit.filter.endpoints": checked(func(v reflect.Value) error {
		for i := range v.Len() {
			if one := v.Index(i).String(); !strings.HasPrefix(one, "/") && !strings.HasPrefix(one, "*") {
				return fmt.Errorf("%q is not a path such as \"/v1/metrics\" or \"/v1/client/*\"", one)
			}
		}
		return nil
	}),
}

// checked assigns a value and checks it.
func checked(check func(reflect.Value) error) func(reflect.Value, tree.Value) error {
	return func(dst reflect.Value, v tree.Value) error {
		if err := tree.Assign(dst, v); err != nil {
			return err
		}
		return check(dst)
	}
}

// oneOf permits some texts, in a list too.
func oneOf(words ...string) func(reflect.Value, tree.Value) error {
	return checked(func(v reflect.Value) error {
		texts, ok := v.Interface().([]string)
		if !ok {
			texts = []string{v.String()}
		}
		for _, text := range texts {
			if !slices.Contains(words, text) {
				return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
			}
		}
		return nil
	})
}

func notNegative(v reflect.Value) error {
	if v.Int() < 0 {
		return fmt.Errorf("a negative value is not possible")
	}
	return nil
}

// wrong lists what only the whole block shows.
func (a Audit) wrong() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a.Filters)) {
		f := a.Filters[name]
		for key, list := range map[string][]string{"endpoints": f.Endpoints, "stages": f.Stages, "operations": f.Operations} {
			if len(list) == 0 {
				errs = append(errs, fmt.Errorf("audit.filter %q has no %s: write %s = [\"*\"] for all of them", name, key, key))
			}
		}
	}
	paths := map[string]string{}
	for _, f := range a.Files("/") {
		if other, twice := paths[f.Path]; twice {
			errs = append(errs, fmt.Errorf("audit.sink %q and %q have the same path %s: name another one", other, f.Name, f.Path))
		}
		paths[f.Path] = f.Name
	}
	return errs
}

// AuditFile is a sink with its defaults.
type AuditFile struct {
	Name, Path     string
	Enforced       bool
	Mode           fs.FileMode
	RotateBytes    int64
	RotateDuration time.Duration
	RotateMaxFiles int
}

// Files are the sinks with their defaults, by name. Without a sink there is one with enforced delivery.
func (a Audit) Files(dataDir string) []AuditFile {
	if !a.Enabled {
		return nil
	}
	sinks := a.Sinks
	if len(sinks) == 0 {
		sinks = map[string]AuditSink{"audit": {}}
	}
	var all []AuditFile
	for _, name := range slices.Sorted(maps.Keys(sinks)) {
		s := sinks[name]
		mode, _ := strconv.ParseUint(cmp.Or(s.Mode, "0600"), 8, 32)
		f := AuditFile{
			Name: name, Path: cmp.Or(s.Path, filepath.Join(dataDir, "audit", auditFile)), Enforced: s.Guarantee != bestEffort, Mode: fs.FileMode(mode),
			RotateBytes: int64(s.RotateBytes), RotateDuration: cmp.Or(s.RotateDuration, 24*time.Hour), RotateMaxFiles: s.RotateMaxFiles,
		}
		if strings.HasSuffix(f.Path, "/") {
			f.Path += auditFile
		}
		f.Path = filepath.Clean(f.Path)
		all = append(all, f)
	}
	return all
}

func (a Audit) shown() map[string]any {
	sinks, filters := []map[string]any{}, []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(a.Sinks)) {
		s := a.Sinks[name]
		sinks = append(sinks, map[string]any{
			"Name": name, "Type": cmp.Or(s.Type, sinkFile), "Format": cmp.Or(s.Format, formatJSON), "DeliveryGuarantee": cmp.Or(s.Guarantee, enforced),
			"Path": s.Path, "Mode": s.Mode, "RotateBytes": s.RotateBytes, "RotateDuration": s.RotateDuration.String(), "RotateMaxFiles": s.RotateMaxFiles,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Filters)) {
		f := a.Filters[name]
		filters = append(filters, map[string]any{"Name": name, "Type": cmp.Or(f.Type, filterHTTP), "Endpoints": f.Endpoints, "Stages": f.Stages, "Operations": f.Operations})
	}
	return map[string]any{"Enabled": a.Enabled, "Sinks": sinks, "Filters": filters}
}
