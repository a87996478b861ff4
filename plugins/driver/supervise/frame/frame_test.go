package frame_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

func sample() frame.Spec {
	return frame.Spec{
		TaskID: "a/b/0", State: "/s", TaskDir: "/t", AllocDir: "/a", Programs: []string{"/bin/x"}, Args: []string{"x", ""},
		Env: []string{"A=1"}, Dir: "/t", User: true, UID: 1, GID: 2, Groups: []int64{3, 4}, Stdout: "/o", Stderr: "/e", MaxFiles: 2,
		MaxFileBytes: 1 << 40, Mounts: []frame.Mount{{Source: "/x", Destination: "/y", ReadOnly: true, Sub: "a/b"}, {}}, Cgroup: "/c", OwnCgroup: true,
		Memory: 9, Join: []string{"/j"}, Cores: []int64{0, 65}, Scopes: []string{"/c"}, Limits: []frame.Limit{{Dir: "/c", File: "f", Value: "1", Must: true}, {}}, OOMScore: -5, Lease: 7, LeaseFrom: 8, Unmount: []string{"/m"}, LeaseCut: 9, LeaseEnd: 10, Beside: []string{"/n"},
		LeaseOf: "a", LeaseFile: "/l", Shared: true, Container: "c",
		Isolation: frame.Isolation{On: true, Root: []frame.Mount{{Source: "/usr", Destination: "/usr"}}, PID: true, IPC: true, Bounding: 5, Ambient: 1},
		Network:   "/run/n", Hostname: "h",
	}
}

func TestSpecSurvivesTheWire(t *testing.T) {
	want := sample()
	var got frame.Spec
	if err := got.Decode(want.Encode()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	fields := reflect.ValueOf(want)
	for i := range fields.NumField() {
		if fields.Field(i).IsZero() {
			t.Errorf("the sample leaves %s empty", fields.Type().Field(i).Name)
		}
	}
}

func TestReportsSurviveTheWire(t *testing.T) {
	r, f, x := frame.Running{TaskID: "t", PID: 5, StartedAt: 6, LeaseOf: "a"}, frame.Failed{Again: true, Text: "no"}, frame.Exited{Code: 1, Signal: 2, OOM: true, FinishedAt: 3, LeaseEnded: true, Keeps: true}
	c, c2 := frame.Command{Args: []string{"a", ""}, TTY: true}, frame.Command{}
	if err := c2.Decode(c.Encode()); err != nil || !reflect.DeepEqual(c, c2) {
		t.Error(c2, err)
	}
	var r2 frame.Running
	var f2 frame.Failed
	var x2 frame.Exited
	if r2.Decode(r.Encode()) != nil || f2.Decode(f.Encode()) != nil || x2.Decode(x.Encode()) != nil || r != r2 || f != f2 || x != x2 {
		t.Error(r2, f2, x2)
	}
}

func TestTruncatedSpecsAreRefused(t *testing.T) {
	s := sample()
	b := s.Encode()
	for n := range b {
		var got frame.Spec
		if got.Decode(b[:n]) == nil {
			t.Fatalf("%d of %d bytes decoded", n, len(b))
		}
	}
	var got frame.Spec
	if got.Decode(append(b, 0)) == nil {
		t.Error("a longer one decoded")
	}
}

func TestHeader(t *testing.T) {
	b := frame.Wrap(frame.KindSignal, []byte{9})
	if k, n, err := frame.Header(b); k != frame.KindSignal || n != 1 || err != nil {
		t.Error(k, n, err)
	}
	for _, bad := range [][]byte{nil, {'s'}, {'s', 255, 255, 255, 255}, {'s', 0, 0, 0, 2}} {
		if _, _, err := frame.Header(bad); err == nil {
			t.Errorf("%v is no header", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := sample()
	f.Add(s.Encode())
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s frame.Spec
		if s.Decode(b) == nil {
			var again frame.Spec
			if again.Decode(s.Encode()) != nil || !reflect.DeepEqual(s, again) {
				t.Error("decoded what does not encode again")
			}
		}
		_ = new(frame.Running).Decode(b)
		_ = new(frame.Failed).Decode(b)
		_ = new(frame.Exited).Decode(b)
	})
}
