package fingerprint

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

const landlockVersion = 1

func probeKernel(_ context.Context, _ *Config, n *api.Node) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("ask for the kernel: %w", err)
	}
	n.Attributes["kernel.name"] = "linux"
	n.Attributes["kernel.version"] = unix.ByteSliceToString(u.Release[:])
	n.Attributes["kernel.arch"] = unix.ByteSliceToString(u.Machine[:])
	if v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersion); e == 0 {
		n.Attributes["kernel.landlock"] = "v" + strconv.Itoa(int(v))
	}
	return nil
}
