package hostvolumes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/oneshot"
)

// Limits of executables.
const (
	fingerprintMax = 4 * time.Second
	callMax        = 60 * time.Second
	pluginsMax     = 64
	stderrMax      = 4 << 10
	quotedMax      = 300
)

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// external is an executable of the node's operator.
type external struct {
	conf Config
	name string
}

func (p external) create(ctx context.Context, v *api.HostVolume, _ bool) (made, error) {
	out, err := p.run(ctx, "create", v)
	if err != nil {
		return made{}, err
	}
	var answer struct {
		Path  string
		Bytes int64
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.Path == "" || answer.Bytes < 0 {
		return made{}, fault.New(fault.Invalid, `plugin %s did not print a JSON object such as {"path":"/srv/x","bytes":0}`, p.name)
	}
	return made{answer.Path, answer.Bytes}, nil
}

func (p external) remove(ctx context.Context, v *api.HostVolume) error {
	_, err := p.run(ctx, "delete", v)
	return err
}

// run calls the executable with an operation as argument and the volume in the environment.
func (p external) run(ctx context.Context, operation string, v *api.HostVolume) ([]byte, error) {
	stderr := &tail{}
	c := oneshot.Command{
		Dir: p.conf.PluginDir, Name: p.name, Noun: "plugin", Args: []string{operation}, Limit: callMax, Daemons: true, Stderr: stderr,
		Env: []string{"DHV_OPERATION=" + operation, "DHV_PLUGIN_DIR=" + p.conf.PluginDir},
	}
	if v == nil {
		c.Limit = fingerprintMax
	} else {
		parameters, err := json.Marshal(v.Parameters)
		if err != nil {
			return nil, err
		}
		c.Env = append(c.Env, "DHV_VOLUMES_DIR="+p.conf.Dir, "DHV_VOLUME_ID="+v.ID, "DHV_VOLUME_NAME="+v.Name, "DHV_NAMESPACE="+v.Namespace,
			"DHV_NODE_ID="+v.NodeID, "DHV_NODE_POOL="+v.NodePool, "DHV_PARAMETERS="+string(parameters),
			"DHV_CAPACITY_MIN_BYTES="+strconv.FormatInt(v.RequestedCapacityMinBytes, 10), "DHV_CAPACITY_MAX_BYTES="+strconv.FormatInt(v.RequestedCapacityMaxBytes, 10))
		if operation == "delete" {
			c.Env = append(c.Env, "DHV_CREATED_PATH="+v.HostPath)
		}
	}
	out, err := c.Run(ctx)
	if err != nil {
		if last := stderr.line(); last != "" {
			return nil, fault.New(fault.Of(err), "%s %s: %w: %s", p.name, operation, err, last)
		}
		return nil, fault.New(fault.Of(err), "%s %s: %w", p.name, operation, err)
	}
	return out, nil
}

// tail keeps the end of what an executable prints to stderr.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-stderrMax):]
	return len(p), nil
}

// line is the last line, without what does not print.
func (t *tail) line() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.b), ""))
	text = text[strings.LastIndexByte(text, '\n')+1:]
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > quotedMax {
		text = strings.ToValidUTF8(text[:quotedMax], "") + "..."
	}
	return text
}

// Fingerprint returns the node attributes of the plugins. Executables that fail are logged and have none.
func (s *Service) Fingerprint(ctx context.Context) map[string]string {
	attributes := map[string]string{attribute("mkdir"): builtinVersion}
	if method, _ := (quota{s.conf.Dir}).method(); method != "" {
		attributes[attribute("quota")] = builtinVersion
		attributes["plugins.host_volume.quota.method"] = method
	}
	entries, err := os.ReadDir(s.conf.PluginDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.conf.Log.Warn("read the directory of host volume plugins", "error", err)
	}
	for _, e := range entries[:min(len(entries), pluginsMax)] {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		v, err := s.fingerprint(ctx, e.Name())
		if err != nil {
			s.conf.Log.Warn("a host volume plugin is not used", "dir", s.conf.PluginDir, "plugin", e.Name(), "error", err)
			continue
		}
		attributes[attribute(e.Name())] = v
	}
	return attributes
}

func attribute(plugin string) string { return "plugins.host_volume." + plugin + ".version" }

// IsAttribute reports whether the name is that of a node attribute of a host volume plugin.
func IsAttribute(name string) bool { return strings.HasPrefix(name, "plugins.host_volume.") }

func (s *Service) fingerprint(ctx context.Context, plugin string) (string, error) {
	if !name.MatchString(plugin) {
		return "", fault.New(fault.Invalid, "its name must be letters, digits, dots, dashes or underscores, at most 64")
	}
	if plugin == "mkdir" || plugin == "quota" {
		return "", fault.New(fault.Invalid, "the name is that of a built-in plugin: rename the executable")
	}
	out, err := external{s.conf, plugin}.run(ctx, "fingerprint", nil)
	if err != nil {
		return "", err
	}
	var f struct{ Version string }
	if err := json.Unmarshal(bytes.TrimSpace(out), &f); err != nil {
		return "", fault.New(fault.Invalid, `it did not print a JSON object such as {"version":"1.2.3"}`)
	}
	if _, err := version.NewVersion(f.Version); err != nil || len(f.Version) > 64 {
		return "", fault.New(fault.Invalid, "its version is not one such as 1.2.3")
	}
	return f.Version, nil
}
