package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch calls changed after each change of the mount table of this process, until ctx ends. It needs a thread, and does not
// read the table.
func Watch(ctx context.Context, changed func()) error {
	// Who polls it is notified of a change once: the runtime must not, as it does with an os.File.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the mount table: %w", err)
	}
	defer unix.Close(table)
	ended, end, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch the mount table: %w", err)
	}
	defer ended.Close()
	stop := context.AfterFunc(ctx, func() { _ = end.Close() })
	defer func() {
		if stop() {
			_ = end.Close()
		}
	}()
	fds := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(ended.Fd()), Events: unix.POLLIN}}
	for ctx.Err() == nil {
		switch _, err := unix.Poll(fds, -1); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("watch the mount table: %w", err)
		}
		if fds[0].Revents != 0 {
			changed()
		}
	}
	return ctx.Err()
}
