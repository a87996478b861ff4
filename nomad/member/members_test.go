package member_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/member"
)

func TestMembersAreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a)
	b.conf.Region = "eu"
	b.start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	self := a.Self()
	want := map[string]string{
		"role": "nomad", "region": "global", "dc": "dc1", "id": "a", "rpc_addr": "a.test", "port": "4647",
		"expect": "1", "bootstrap": "1", "raft_vsn": "3", "vsn": strconv.FormatUint(fsm.Version, 10), "build": "1.0",
	}
	for tag, value := range want {
		if self.Tags[tag] != value {
			t.Errorf("tag %s is %q, not %q", tag, self.Tags[tag], value)
		}
	}
	if self.Name != "a.global" || self.Status != "alive" || self.DelegateCur == 0 {
		t.Errorf("self is %+v", self)
	}
	if got := a.Regions(); !slices.Equal(got, []string{"eu", "global"}) {
		t.Errorf("regions %v", got)
	}
	if got := a.Servers("eu"); !slices.Equal(got, []string{"b.test:4647"}) {
		t.Errorf("servers of eu %v", got)
	}
	if got := a.Name("a"); got != "a.global" || a.Name("nobody") != "nobody" {
		t.Errorf("names %q, %q", got, a.Name("nobody"))
	}
}

func TestAlone(t *testing.T) {
	t.Parallel()
	h := newWorld().host(t, "a", 1)
	h.conf.Bind, h.conf.RPC = "", "127.0.0.1:4647"
	m, err := member.Open(h.conf)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Members(); len(got) != 1 || got[0].Status != "alive" || m.Self().Port != 4647 {
		t.Errorf("members %+v", got)
	}
	if _, err := m.Join([]string{"127.0.0.1"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("join: %v", err)
	}
	if err := m.ForceLeave("a", false); !errors.Is(err, fault.Unavailable) {
		t.Errorf("force leave: %v", err)
	}
}

func TestRestartedServerFindsTheOthersAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a).start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	b.stop()
	b.conf.Join.Retry = nil
	b.start()
	until(t, "b knows a again", func() bool { return b.alive() == 2 })
}

func TestServerThatLeavesOrDies(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a).start()
	c := w.host(t, "c", 0, a).start()
	until(t, "all know all", func() bool { return a.alive() == 3 && b.alive() == 3 && c.alive() == 3 })
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "b has left", func() bool { return a.status("b") == "left" && c.status("b") == "left" })
	c.stop()
	until(t, "c has failed", func() bool { return a.status("c") == "failed" })
	if err := a.ForceLeave("c", false); err != nil {
		t.Fatal(err)
	}
	until(t, "c counts as left", func() bool { return a.status("c") == "left" })
	if err := a.ForceLeave("c.global", true); err != nil {
		t.Fatal(err)
	}
	until(t, "c is forgotten", func() bool { return a.status("c") == "unknown" })
	if err := a.ForceLeave("nobody", false); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("an unknown server: %v", err)
	}
}

func TestJoinGoesOnUntilItWorks(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	w := newWorld()
	a := w.host(t, "a", 0)
	a.conf.Join.Retry = []string{address, "no-such-host.invalid:1"}
	a.start()
	until(t, "the failure is logged", func() bool { return a.log.count("no server to join has replied") > 0 && a.log.count(address) > 0 })
	b := w.host(t, "b", 1)
	b.conf.Bind = address
	b.start()
	until(t, "a finds b", func() bool { return a.alive() == 2 })
}

func TestJoinGivesUpWhenTold(t *testing.T) {
	t.Parallel()
	h := newWorld().host(t, "a", 0)
	h.conf.Join.Retry, h.conf.Join.Max = []string{"127.0.0.1:1"}, 2
	h.conf.Log = nullLog()
	m, err := member.Open(h.conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "in 2 tries") {
		t.Errorf("run: %v", err)
	}
}

func TestBadAddressesAreTold(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []struct{ bind, advertise, want string }{
		{"nonsense", "", "nonsense"},
		{"127.0.0.1:99999", "", "99999"},
		{"127.0.0.1:0", "no-such-host.invalid", "no-such-host.invalid"},
		{taken.Addr().String(), "", "address already in use"},
	} {
		h := newWorld().host(t, "a", 0)
		h.conf.Bind, h.conf.Advertise, h.conf.Log = c.bind, c.advertise, nullLog()
		if _, err := member.Open(h.conf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
