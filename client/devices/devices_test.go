package devices_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/device/protocol"
	"github.com/open-nomad/open-nomad/plugins/device/serve"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func TestMain(m *testing.M) {
	if os.Getenv(protocol.Kind.Cookie) != "" {
		plays[os.Args[1]](os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lines is a plugin whose devices are the lines of the file "devices" in its directory: vendor/type/name id [health].
type lines struct {
	dir  string
	keep func(id string) *device.Reservation
}

func (l lines) groups() (out []*api.NodeDeviceResource) {
	content, _ := os.ReadFile(filepath.Join(l.dir, "devices"))
	for line := range strings.Lines(string(content)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		name := strings.SplitN(f[0], "/", 3)
		if len(out) == 0 || out[len(out)-1].Name != name[2] {
			out = append(out, &api.NodeDeviceResource{Vendor: name[0], Type: name[1], Name: name[2]})
		}
		i := &api.NodeDevice{ID: f[1], Healthy: len(f) == 2, HealthDescription: strings.Join(f[2:], " ")}
		out[len(out)-1].Instances = append(out[len(out)-1].Instances, i)
	}
	return out
}

func (l lines) Fingerprint(ctx context.Context) (<-chan device.Fingerprint, error) {
	ch := make(chan device.Fingerprint)
	go func() {
		defer close(ch)
		last := "none"
		for ctx.Err() == nil {
			if now, _ := os.ReadFile(filepath.Join(l.dir, "devices")); string(now) != last {
				last = string(now)
				select {
				case ch <- device.Fingerprint{Groups: l.groups()}:
				case <-ctx.Done():
				}
			}
			if _, err := os.Stat(filepath.Join(l.dir, "die")); err == nil {
				os.Exit(3)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return ch, nil
}

func (l lines) Reserve(ctx context.Context, ids []string) (*device.Reservation, error) {
	if _, err := os.Stat(filepath.Join(l.dir, "hang")); err == nil {
		<-ctx.Done()
	}
	if l.keep != nil {
		return l.keep(ids[0]), nil
	}
	return &device.Reservation{Envs: map[string]string{"IDS": strings.Join(ids, ",")}, Devices: []driver.Device{{HostPath: "/dev/null", TaskPath: "/dev/x"}}}, nil
}

func (l lines) Stats(ctx context.Context, _ time.Duration) (<-chan device.Stats, error) {
	ch := make(chan device.Stats, 1)
	used := int64(7)
	s := &api.DeviceGroupStats{Vendor: "v", Type: "t", Name: "n", InstanceStats: map[string]*api.DeviceStats{}}
	for _, id := range []string{"a", "stranger"} {
		s.InstanceStats[id] = &api.DeviceStats{
			Summary: &api.StatValue{IntNumeratorVal: &used}, Stats: &api.StatObject{Nested: map[string]*api.StatObject{"memory": {Attributes: map[string]*api.StatValue{"used": {IntNumeratorVal: &used}}}}},
		}
	}
	ch <- device.Stats{Groups: []*api.DeviceGroupStats{s}}
	return ch, nil
}

func plugin(name string, l lines) {
	serve.Serve(serve.Plugin{Name: name, Config: struct {
		Key string `config:"key"`
	}{}, New: func(map[string]any, string, hclog.Logger) (device.Plugin, error) { return l, nil }})
}

// raw serves what no plugin should send.
type raw struct {
	protocol.UnimplementedDeviceServer
	send func(protocol.Device_FingerprintServer) error
}

func (raw) Info(context.Context, *protocol.InfoRequest) (*protocol.InfoResponse, error) {
	return &protocol.InfoResponse{Name: "x"}, nil
}

func (raw) Configure(context.Context, *protocol.ConfigureRequest) (*protocol.ConfigureResponse, error) {
	return &protocol.ConfigureResponse{}, nil
}

func (r raw) Fingerprint(_ *protocol.FingerprintRequest, s protocol.Device_FingerprintServer) error {
	return r.send(s)
}

func serveRaw(send func(protocol.Device_FingerprintServer) error) {
	protocol.Kind.Serve(func(r grpc.ServiceRegistrar, _ hclog.Logger) { protocol.RegisterDeviceServer(r, raw{send: send}) })
}

func report(groups ...*protocol.Group) *protocol.FingerprintResponse {
	return &protocol.FingerprintResponse{Groups: groups}
}

func one(id string) *protocol.Group {
	return &protocol.Group{Vendor: "v", Type: "t", Name: "n", Instances: []*protocol.Instance{{Id: id, Healthy: true}}}
}

func sends(r *protocol.FingerprintResponse) func(string) {
	return func(string) {
		serveRaw(func(s protocol.Device_FingerprintServer) error {
			if err := s.Send(r); err != nil {
				return err
			}
			<-s.Context().Done()
			return nil
		})
	}
}

// plays are what the process of a plugin does; the argument is its directory.
var plays = map[string]func(dir string){
	"good":  func(dir string) { plugin("x", lines{dir: dir}) },
	"other": func(dir string) { plugin("y", lines{dir: dir}) },
	"bad paths": func(dir string) {
		plugin("x", lines{dir: dir, keep: func(id string) *device.Reservation {
			switch id {
			case "a":
				return &device.Reservation{Mounts: []driver.Mount{{Source: "/etc", Destination: "/"}}}
			case "b":
				return &device.Reservation{Devices: []driver.Device{{HostPath: "/etc/hostname", TaskPath: "/dev/x"}}}
			}
			return &device.Reservation{Envs: map[string]string{"A=B": "x"}}
		}})
	},
	"exits":   func(string) { os.Exit(3) },
	"garbage": func(string) { fmt.Println(strings.Repeat("\x00\xff|", 5000)); select {} },
	"silent":  func(string) { time.Sleep(time.Hour) },
	"hangs": func(string) {
		serveRaw(func(s protocol.Device_FingerprintServer) error { <-s.Context().Done(); return nil })
	},
	"many": func(string) {
		g := one("a")
		for n := range 100_000 {
			g.Instances = append(g.Instances, &protocol.Instance{Id: "device-" + strconv.Itoa(n), Healthy: true})
		}
		sends(report(g))("")
	},
	"id":      sends(report(one("a\x1b[2Jb"))),
	"comma":   sends(report(one("a,b"))),
	"utf8":    sends(report(one("\xff\xfe"))),
	"twice":   sends(report(&protocol.Group{Vendor: "v", Type: "t", Name: "n", Instances: []*protocol.Instance{{Id: "a"}, {Id: "a"}}})),
	"vendor":  sends(report(&protocol.Group{Vendor: "a/b", Type: "t", Name: "n", Instances: []*protocol.Instance{{Id: "a"}}})),
	"long":    sends(report(&protocol.Group{Vendor: "v", Type: "t", Name: "n", Instances: []*protocol.Instance{{Id: "a", HealthDescription: strings.Repeat("x", 5000)}}})),
	"nothing": sends(report(&protocol.Group{Vendor: "v", Type: "t", Name: "n"})),
	"flood": func(string) {
		serveRaw(func(s protocol.Device_FingerprintServer) error {
			for n := 0; ; n++ {
				g := one("a")
				g.Instances[0].Healthy = n%2 == 0
				if err := s.Send(report(g)); err != nil {
					return err
				}
			}
		})
	},
}

// node records what a manager reports to its node.
type node struct {
	*devices.Manager
	dir string

	mu      sync.Mutex
	groups  []*api.NodeDeviceResource
	changes int
	events  []string
}

func (n *node) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, g := range n.groups {
		for _, i := range g.Instances {
			out = append(out, fmt.Sprintf("%s/%s/%s %s %v %s", g.Vendor, g.Type, g.Name, i.ID, i.Healthy, i.HealthDescription))
		}
	}
	return strings.Join(out, "\n")
}

func (n *node) recorded() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.events, "\n")
}

func (n *node) write(t *testing.T, file, content string) {
	t.Helper()
	tmp := filepath.Join(n.dir, "new")
	if err := errors.Join(os.WriteFile(tmp, []byte(content), 0o600), os.Rename(tmp, filepath.Join(n.dir, file))); err != nil {
		t.Fatal(err)
	}
}

// start runs a manager with one plugin for each name=play.
func start(t *testing.T, content string, plugins ...string) *node {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{dir: t.TempDir()}
	n.write(t, "devices", content)
	conf := devices.Config{
		Grace: 300 * time.Millisecond, Log: hclog.NewNullLogger(),
		Changed: func(g []*api.NodeDeviceResource) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.groups, n.changes = g, n.changes+1
		},
		NodeEvent: func(e *api.NodeEvent) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e.Message)
		},
	}
	for _, p := range plugins {
		name, play, _ := strings.Cut(p, "=")
		timeout := time.Minute
		if play == "silent" || play == "hangs" {
			timeout = 2 * time.Second
		}
		conf.Plugins = append(conf.Plugins, devices.Plugin{Name: name, Path: self, Args: []string{play, n.dir}, StateDir: t.TempDir(), Timeout: timeout})
	}
	n.Manager = devices.New(conf)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-n.First():
	case <-time.After(time.Minute):
		t.Fatal("no first report after a minute")
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func given(name string, ids ...string) []*api.AllocatedDeviceResource {
	p := strings.SplitN(name, "/", 3)
	return []*api.AllocatedDeviceResource{{Vendor: p[0], Type: p[1], Name: p[2], DeviceIDs: ids}}
}

func TestDevicesOfTheNodeFollowThePlugin(t *testing.T) {
	t.Parallel()
	n := start(t, "v/t/n a\nv/t/n b\n", "x=good")
	const both = "v/t/n a true \nv/t/n b true "
	if n.text() != both {
		t.Fatalf("%s", n.text())
	}
	eventually(t, "statistics", func() bool { return len(n.Stats()) > 0 })
	if s := n.Stats()[0].InstanceStats; len(s) != 1 || *s["a"].Stats.Nested["memory"].Attributes["used"].IntNumeratorVal != 7 {
		t.Errorf("statistics %+v", s)
	}
	if s := n.StatsOf(given("v/t/n", "b")); len(s) != 0 {
		t.Errorf("statistics of b: %+v", s)
	}
	n.write(t, "devices", "v/t/n a\nv/t/n b too hot\n")
	eventually(t, "b is unhealthy", func() bool { return n.text() == "v/t/n a true \nv/t/n b false too hot" })
	n.write(t, "devices", "v/t/n b\n")
	eventually(t, "a is gone", func() bool { return n.text() == "v/t/n b true " })
	for _, want := range []string{"device v/t/n[b] is lost: too hot", "device v/t/n[a] is lost: its plugin does not find it any more"} {
		if !strings.Contains(n.recorded(), want) {
			t.Errorf("events %s, want %s", n.recorded(), want)
		}
	}
	n.write(t, "die", "")
	eventually(t, "b is unhealthy while the plugin is away", func() bool { return strings.HasPrefix(n.text(), "v/t/n b false device plugin x: ") })
	if err := os.Remove(filepath.Join(n.dir, "die")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin runs again", func() bool { return n.text() == "v/t/n b true " })
}

func TestReservations(t *testing.T) {
	t.Parallel()
	n := start(t, "v/t/n a\nv/t/n b\nv/t/n c is broken\n", "x=good")
	ctx := bounded(t)
	r, err := n.Reserve(ctx, "alloc/task", given("v/t/n", "a", "b"))
	if err != nil || r.Envs["IDS"] != "a,b" || len(r.Devices) != 1 || r.Devices[0].HostPath != "/dev/null" {
		t.Fatalf("%+v %v", r, err)
	}
	for id, want := range map[string]string{"c": "is broken", "gone": "does not find it"} {
		if _, err := n.Reserve(ctx, "other", given("v/t/n", id)); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := n.Reserve(ctx, "other", given("v/t/unknown", "a")); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown group: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := n.Reserve(short, "other", given("v/t/n", "b")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a device with a user: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := n.Reserve(ctx, "other", given("v/t/n", "b"))
		got <- err
	}()
	n.Release("alloc/task")
	if err := <-got; err != nil {
		t.Errorf("after its user has ended: %v", err)
	}
	n.write(t, "hang", "")
	n.write(t, "die", "")
	if _, err := n.Reserve(ctx, "third", given("v/t/n", "a")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the plugin ends during the reservation: %v", err)
	}
}

func TestReservationsThatATaskMustNotGet(t *testing.T) {
	t.Parallel()
	n := start(t, "v/t/n a\nv/t/n b\nv/t/n c\n", "x=bad paths")
	for id, want := range map[string]string{"a": `task path "/"`, "b": "/etc/hostname is no device node", "c": `variable "A=B"`} {
		if _, err := n.Reserve(bounded(t), "task", given("v/t/n", id)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

func TestLostDevices(t *testing.T) {
	t.Parallel()
	n := start(t, "v/t/n a\nv/t/n b\n", "x=good")
	lost := make(chan string, 1)
	go func() { lost <- n.Lost(t.Context(), given("v/t/n", "a")) }()
	// A plugin that starts again loses no device.
	n.write(t, "die", "")
	eventually(t, "the plugin is away", func() bool { return strings.Contains(n.text(), "a false") })
	time.Sleep(time.Second) // longer than the grace
	if err := os.Remove(filepath.Join(n.dir, "die")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin runs again", func() bool { return strings.Contains(n.text(), "a true") })
	n.write(t, "devices", "v/t/n a\n") // another one
	eventually(t, "b is gone", func() bool { return !strings.Contains(n.text(), "b") })
	select {
	case why := <-lost:
		t.Fatalf("lost too early: %s", why)
	default:
	}
	n.write(t, "devices", "v/t/n a fell off the bus\n")
	select {
	case why := <-lost:
		if why != "device v/t/n[a] is lost: fell off the bus" {
			t.Errorf("%s", why)
		}
	case <-time.After(time.Minute):
		t.Error("the loss is not noticed")
	}
	if why := n.Lost(t.Context(), given("v/t/other", "a")); why != "device v/t/other[a] is lost: no device plugin of this node has devices v/t/other" {
		t.Errorf("%s", why)
	}
}

func TestWrongPlugins(t *testing.T) {
	t.Parallel()
	for play, want := range map[string]string{
		"exits":   "does not speak the protocol of device plugins",
		"garbage": "does not speak the protocol of device plugins",
		"silent":  "does not speak the protocol of device plugins",
		"hangs":   "it has sent no report of its health within 2s",
		"many":    "more than 1024 devices",
		"id":      `id "a\x1b[2Jb"`,
		"comma":   `id "a,b"`,
		"utf8":    "Fingerprint: ",
		"twice":   "id a occurs twice",
		"vendor":  `vendor "a/b"`,
		"long":    "description or bus id that is too long",
		"nothing": "group v/t/n has no instances",
		"other":   `it is the device plugin "y": name the executable nomad-device-y`,
	} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			n := start(t, "v/t/n a\n", "x="+play)
			if !strings.Contains(n.recorded(), want) || !strings.HasPrefix(n.recorded(), "device plugin x: ") || n.text() != "" {
				t.Errorf("events %s, devices %s; want %s", n.recorded(), n.text(), want)
			}
			if _, err := n.Reserve(t.Context(), "task", nil); err != nil {
				t.Errorf("a task without devices: %v", err)
			}
		})
	}
}

func TestAGroupBelongsToOnePlugin(t *testing.T) {
	t.Parallel()
	n := start(t, "v/t/n a\n", "x=good", "y=other")
	eventually(t, "one is refused", func() bool {
		return strings.Contains(n.recorded(), "it reports devices v/t/n, which are those of device plugin")
	})
	if strings.Count(n.text(), "v/t/n a") != 1 {
		t.Errorf("%s", n.text())
	}
}

func TestAFloodOfReportsIsSlowed(t *testing.T) {
	t.Parallel()
	n := start(t, "", "x=flood")
	begun := time.Now()
	time.Sleep(3 * time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	if most := int(time.Since(begun)/time.Second) + 3; n.changes > most {
		t.Errorf("%d changes of the node, want at most %d", n.changes, most)
	}
}
