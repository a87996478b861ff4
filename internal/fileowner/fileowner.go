// Package fileowner reads the owners of files that job files name.
package fileowner

import (
	"math"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Owner is a user and a group, by number: the names of a container are not those of its node.
type Owner struct{ UID, GID uint32 }

// Parse reads "uid:gid". The error has class fault.Invalid.
func Parse(text string) (Owner, error) {
	user, group, ok := strings.Cut(text, ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	gid, errGroup := strconv.ParseUint(group, 10, 32)
	// The largest number means "no owner" to the kernel.
	if !ok || err != nil || errGroup != nil || uid == math.MaxUint32 || gid == math.MaxUint32 {
		return Owner{}, fault.New(fault.Invalid, `%.64q is not a user and a group by number, as "1000:1000"`, text)
	}
	return Owner{uint32(uid), uint32(gid)}, nil
}
