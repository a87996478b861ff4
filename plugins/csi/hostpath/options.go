package hostpath

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// knownOptions are the mount flags that a bind mount can have. Others, such as sync, belong to the file system
// below, which other volumes share.
var knownOptions = []string{
	"", "defaults", "async", "rw", "ro", "suid", "nosuid", "dev", "nodev", "exec", "noexec",
	"atime", "noatime", "relatime", "strictatime", "diratime", "nodiratime",
}

// options are the mount flags of one publication.
type options struct {
	flags mounts.Flags
	times mounts.Times
}

// optionsOf translates mount flags and names the first unknown one. The value behind an = may be secret and is not
// reported.
func optionsOf(c *pb.VolumeCapability, readOnly bool) (options, error) {
	var list []string
	for _, flags := range c.GetMount().GetMountFlags() {
		for flag := range strings.SplitSeq(flags, ",") {
			flag = strings.TrimSpace(flag)
			if !slices.Contains(knownOptions, flag) {
				name, _, _ := strings.Cut(flag, "=")
				return options{}, invalid("mount flag %q is not one of those of a bind mount: %s", name, strings.Join(knownOptions[1:], ", "))
			}
			list = append(list, flag)
		}
	}
	o := options{mounts.FlagsOf(list), mounts.TimesOf(list)}
	o.flags.ReadOnly = o.flags.ReadOnly || readOnly
	return o, nil
}

// checkOptions refuses capabilities with mount flags that no publication could have.
func checkOptions(caps []*pb.VolumeCapability) error {
	for _, c := range caps {
		if _, err := optionsOf(c, false); err != nil {
			return err
		}
	}
	return nil
}

// bindOnce binds source to target unless that is so already. Something else at the target is refused.
func bindOnce(source, target string, o options) error {
	on, err := mounts.IsPoint(target)
	if err != nil {
		return err
	}
	if !on {
		if err := mounts.Bind(source, target, o.flags); err != nil {
			return err
		}
		if err := mounts.SetTimes(target, o.times); err != nil {
			return errors.Join(err, mounts.Unmount(target))
		}
		return nil
	}
	table, err := mounts.Table()
	if err != nil {
		return err
	}
	want, err := table.Of(source)
	if err != nil {
		return err
	}
	have := table.At(target)
	if have == nil || !have.Same(want) || have.ReadOnly != o.flags.ReadOnly || o.flags.Without(have.Flags) != (mounts.Flags{}) {
		return status.Errorf(codes.AlreadyExists, "something else is mounted at %s", target)
	}
	if !o.times.Like(have.Times) {
		// A call that ended between the two steps is completed by its repetition.
		return mounts.SetTimes(target, o.times)
	}
	return nil
}
