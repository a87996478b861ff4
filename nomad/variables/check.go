package variables

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// Bounds of variables and their locks.
const (
	sizeMax     = 64 << 10
	ttlMin      = 10 * time.Second
	ttlMax      = 24 * time.Hour
	ttlDefault  = 15 * time.Second
	delayMax    = 24 * time.Hour
	delayNormal = 15 * time.Second
)

var (
	pathForm = lazy.Regexp(`^[a-zA-Z0-9_~/-]{1,128}$`)

	errNoItems  = fault.New(fault.Invalid, "variable missing required Items object")
	errTooLarge = fault.New(fault.Invalid, "RPC Error:: 400,variables are limited to 64KiB in total size")
	errReserved = fault.New(fault.Invalid, `RPC Error:: 400,only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory`)
)

// checkPath refuses paths that cannot be written.
func checkPath(path string) error {
	parts := strings.Split(path, "/")
	switch {
	case !pathForm().MatchString(path):
		return fault.New(fault.Invalid, "invalid path %.140q: use 1 to 128 letters, digits and the characters - _ ~ /", path)
	case slices.Contains(parts, ""):
		return fault.New(fault.Invalid, "invalid path %q: a slash is at its begin or end, or two follow each other", path)
	case parts[0] == "nomad" && (len(parts) == 1 || parts[1] != "jobs" && parts[1] != "job-templates"):
		return errReserved
	}
	return nil
}

func checkItems(items map[string]string) error {
	size := 0
	for k, v := range items {
		size += len(k) + len(v)
	}
	if size > sizeMax {
		return errTooLarge
	}
	return nil
}

// newLock is the lock that a request asks for, with an id of its own.
func newLock(asked *api.VariableLock) (*api.VariableLock, error) {
	if asked == nil {
		asked = &api.VariableLock{}
	}
	ttl, err := bounded("TTL", asked.TTL, ttlDefault, ttlMin, ttlMax)
	delay, err2 := bounded("LockDelay", asked.LockDelay, delayNormal, 0, delayMax)
	if err := errors.Join(err, err2); err != nil {
		return nil, fault.Wrap(fault.Invalid, fmt.Errorf("lock of the variable: %w", err))
	}
	return &api.VariableLock{TTL: ttl.String(), LockDelay: delay.String()}, nil
}

func bounded(name, text string, otherwise, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s %.40q is not a duration such as \"15s\"", name, text)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%s %s is not from %s to %s", name, d, least, most)
	}
	return d, nil
}
