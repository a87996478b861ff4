package csi

import (
	"testing"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// A driver that ignores what a volume is to be made from makes an empty one, or one of something else.
func TestVolumeOfAnotherSourceIsTold(t *testing.T) {
	t.Parallel()
	volume := func(id string) *pb.VolumeContentSource {
		return &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Volume{Volume: &pb.VolumeContentSource_VolumeSource{VolumeId: id}}}
	}
	snapshot := func(id string) *pb.VolumeContentSource {
		return &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Snapshot{Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}
	for name, c := range map[string]struct {
		asked, reported *pb.VolumeContentSource
		other           bool
	}{
		"none":              {},
		"none was asked":    {reported: volume("a")},
		"the same volume":   {asked: volume("a"), reported: volume("a")},
		"the same snapshot": {asked: snapshot("a"), reported: snapshot("a")},
		"another volume":    {asked: volume("a"), reported: volume("b"), other: true},
		"another kind":      {asked: volume("a"), reported: snapshot("a"), other: true},
		"empty":             {asked: snapshot("a"), other: true},
	} {
		if other := otherSource(c.asked, c.reported); other != c.other {
			t.Errorf("%s: another source is %t", name, other)
		}
	}
}
