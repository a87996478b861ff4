package member_test

import "testing"

// Servers are restarted one after the other, and nobody tells them whom to join: the first one asks again those that
// it remembers.
func TestServerThatIsStartedFirstFindsThoseItRemembers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	b := w.host(t, "b", 0).start()
	a := w.host(t, "a", 0, b).start()
	until(t, "they know each other", func() bool { return a.alive() == 2 && b.alive() == 2 })
	a.stop()
	b.stop()
	a.conf.Join.Retry = nil
	a.start()
	until(t, "a finds nobody", func() bool { return a.log.count("Failed to re-join any previously known node") == 1 })
	b.conf.Dir = t.TempDir() // it remembers nobody
	b.start()
	until(t, "they know each other again", func() bool { return a.alive() == 2 && b.alive() == 2 })
}

func TestServerThatLeftDoesNotComeBackToThoseItRemembers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	b := w.host(t, "b", 0).start()
	a := w.host(t, "a", 0, b).start()
	c := w.host(t, "c", 0, b).start()
	until(t, "all know each other", func() bool { return a.alive() == 3 && b.alive() == 3 && c.alive() == 3 })
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.stop()
	a.conf.Join.Retry = nil
	a.start()
	c.stop()
	until(t, "b and c find each other, and c is down", func() bool { return b.status("c") == "failed" }) // some seconds
	if n := a.alive(); n != 1 {
		t.Errorf("it left and knows %d servers", n)
	}
}
