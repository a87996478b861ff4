package script

import (
	"slices"
	"testing"
	"time"
)

func call(id, rpc, node, to string, from, until int) Call {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	c := Call{Event: Event{ID: id, RPC: rpc, Node: node, Volume: "v", To: to, At: at(from)}}
	if until > 0 {
		c.Ended = at(until)
	}
	return c
}

func TestOverlapsAreSeenOverAllNodesAndControllers(t *testing.T) {
	publish, unpublish := call("1", "ControllerPublishVolume", "c1", "n1", 0, 10), call("2", "ControllerUnpublishVolume", "c2", "n2", 5, 15)
	for name, c := range map[string]struct {
		calls []Call
		want  int
	}{
		"two controllers, two nodes":     {[]Call{publish, unpublish}, 1},
		"one after the other":            {[]Call{publish, call("2", "ControllerUnpublishVolume", "c2", "n2", 11, 15)}, 0},
		"on one node":                    {[]Call{call("1", "NodeStageVolume", "n1", "", 0, 10), call("2", "NodePublishVolume", "n1", "", 9, 12)}, 1},
		"on two nodes":                   {[]Call{call("1", "NodeStageVolume", "n1", "", 0, 10), call("2", "NodeStageVolume", "n2", "", 9, 12)}, 0},
		"attached while it is staged":    {[]Call{publish, call("2", "NodeStageVolume", "n1", "", 9, 12)}, 1},
		"attached elsewhere":             {[]Call{publish, call("2", "NodeStageVolume", "n2", "", 9, 12)}, 0},
		"deleted while it is staged":     {[]Call{call("1", "NodeStageVolume", "n2", "", 0, 9), call("2", "DeleteVolume", "c1", Anywhere, 5, 8)}, 1},
		"asked for meanwhile":            {[]Call{publish, call("2", "ValidateVolumeCapabilities", "c2", Anywhere, 5, 8)}, 0},
		"the driver was killed under it": {[]Call{call("1", "ControllerPublishVolume", "c1", "n1", 0, 0), unpublish}, 0},
	} {
		if got := Overlaps(c.calls); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestFaultsOfAScriptFollowEachOther(t *testing.T) {
	dir := t.TempDir()
	err := Set(dir, Fault{RPC: "CreateVolume", Code: 4, Times: 1}, Fault{RPC: "CreateVolume", Code: 16, Times: 2}, Fault{RPC: "CreateVolume", Code: 3, Volume: "other"})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i := range 4 {
		e := Event{ID: string(rune('a' + i)), RPC: "CreateVolume", Volume: "v", At: time.Now()}
		if err := Append(dir, e); err != nil {
			t.Fatal(err)
		}
		f, err := Find(dir, e)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			f = &Fault{}
		}
		got = append(got, f.Code)
	}
	if want := []int{4, 16, 16, 0}; !slices.Equal(got, want) {
		t.Errorf("codes are %v, want %v", got, want)
	}
}
