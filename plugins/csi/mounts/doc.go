// Package mounts looks at the mount table and makes and removes bind mounts, safely around mounts that are
// dead or hang.
//
// Rules: whether a path is a mount is asked of the kernel's walk to it, which does not enter the mount, or read from
// mountinfo, never with stat, which blocks indefinitely on a hung mount, nor with statx: some file systems ask their server
// even with AT_STATX_DONT_SYNC. An automount is not triggered. A read-only bind becomes visible read-only or not at
// all. Unmounting is never lazy but by [Detach]. Nothing here removes files.
package mounts
