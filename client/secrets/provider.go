package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-version"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/internal/oneshot"
)

const (
	// textMax limits what is quoted of an error of the executable.
	textMax      = 300
	versionMax   = 64
	providersMax = 64 // are considered
)

// limits are the times of the operations of an executable.
var limits = map[string]time.Duration{"fingerprint": 4 * time.Second, "fetch": 10 * time.Second}

// Subdir is the directory of the providers in the common plugin directory.
const Subdir = "secrets"

// Fingerprint returns the node attributes of the built-in provider and of the executables in dir. Those that fail are reported to
// failed and have no attribute.
func Fingerprint(ctx context.Context, dir string, failed func(provider string, err error)) map[string]string {
	out := map[string]string{attribute(Builtin): builtinVersion}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed("", fmt.Errorf("read the directory of secret providers: %w", err))
	}
	if len(entries) > providersMax {
		failed("", fault.New(fault.Exhausted, "%s has %d entries: only %d are used", dir, len(entries), providersMax))
		entries = entries[:providersMax]
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, e := range entries {
		all.Go(func() {
			v, err := fingerprint(ctx, dir, e.Name())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed(e.Name(), err)
				return
			}
			out[attribute(e.Name())] = v
		})
	}
	all.Wait()
	return out
}

func attribute(provider string) string { return "plugins.secrets." + provider + ".version" }

func fingerprint(ctx context.Context, dir, provider string) (string, error) {
	if provider == Builtin || provider == "vault" {
		return "", fault.New(fault.Invalid, "the name is that of a built-in provider: rename the executable")
	}
	out, err := run(ctx, dir, provider, nil, "fingerprint")
	if err != nil {
		return "", err
	}
	var f struct{ Type, Version string }
	if !decode(out, &f) || f.Type != "secrets" {
		return "", fault.New(fault.Invalid, `it did not print a JSON object with the type "secrets"`)
	}
	if _, err := version.NewVersion(f.Version); err != nil || len(f.Version) > versionMax {
		return "", fault.New(fault.Invalid, "its version is not one such as 1.2.3")
	}
	return f.Version, nil
}

// fetch runs an executable for the secret at a path.
func fetch(ctx context.Context, dir, provider, path string, env []string) (map[string]string, error) {
	out, failed := run(ctx, dir, provider, env, "fetch", path)
	var answer struct {
		Result map[string]string
		Error  *string
	}
	ok := decode(out, &answer)
	switch {
	case ok && answer.Error != nil && *answer.Error != "":
		return nil, fault.New(fault.Invalid, "the provider reports: %s", quoted(*answer.Error, answer.Result))
	case failed != nil:
		return nil, failed
	case !ok:
		return nil, fault.New(fault.Invalid, "the provider did not print a JSON object with result, an object of strings, and error, a string or null")
	case answer.Result == nil:
		return nil, fault.New(fault.Invalid, "the provider printed no result")
	}
	for key, value := range answer.Result {
		if strings.ContainsRune(value, 0) {
			return nil, fault.New(fault.Invalid, "the value of key %q contains a NUL byte", key)
		}
	}
	return answer.Result, nil
}

// decode reads exactly one JSON object. It does not return the error of the decoder, which may quote a value.
func decode(out []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(out))
	if d.Decode(into) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF) && bytes.HasPrefix(bytes.TrimSpace(out), []byte("{"))
}

// quoted is the error of an executable as one line of limited length, without values that it printed too.
func quoted(text string, values map[string]string) string {
	text = Hide(text, values)
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax], "") + "..."
	}
	return text
}

// run runs an executable and returns what it prints, also when it fails. All of its processes have ended then.
func run(ctx context.Context, dir, provider string, env []string, args ...string) ([]byte, error) {
	if err := ids.CheckProvider(provider); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	return oneshot.Command{
		Dir: dir, Name: provider, Noun: "provider", Env: append([]string{"CPI_OPERATION=" + args[0]}, env...), Args: args, Limit: limits[args[0]],
	}.Run(ctx)
}
