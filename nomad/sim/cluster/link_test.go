package cluster

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// host serves calls.
type host interface {
	name() string
	// serves answers the handler of a method and until when the process lives; nil when nobody answers.
	serves(method string) (*wire.Handler, context.Context)
}

// answerLost is how long a caller waits for an answer that was lost before its connection is given up.
const answerLost = 4 * time.Second

// delay of one message: mostly milliseconds, rarely seconds.
func (w *World) delay(r *rand.Rand) time.Duration {
	switch n := r.IntN(1000); {
	case n < 950 || w.isCalm():
		return w.some(r, 12*time.Millisecond)
	case n < 990:
		return w.some(r, 400*time.Millisecond)
	default:
		return w.some(r, 7*time.Second)
	}
}

func (w *World) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

func (w *World) reachable(a, b string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.cut[[2]string{a, b}]
}

// apart cuts or mends the link between two hosts; the lock is held.
func (w *World) apart(a, b string, cut bool) {
	for _, k := range [][2]string{{a, b}, {b, a}} {
		if cut {
			w.cut[k] = true
		} else {
			delete(w.cut, k)
		}
	}
}

// caller is the way from one host to another.
type caller struct {
	w    *World
	from string
	to   host
	// life tells apart those who called from there.
	life string
}

// Invoke implements [wire.Caller].
func (c caller) Invoke(ctx context.Context, method string, req, resp any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b, err := req.(msgp.Marshaler).MarshalMsg(nil)
	if err != nil {
		return err
	}
	w := c.w
	r := w.dice.roll(c.life + ">" + c.to.name() + " " + method + told(req))
	there, back := w.delay(r), w.delay(r)
	if *messages {
		w.say("%s>%s %s%s", c.from, c.to.name(), method, told(req))
	}
	lost, deaf, twice := w.faulty(r, 1), w.faulty(r, 2), w.faulty(r, 2)
	if strings.HasPrefix(method, "Controller.") {
		twice = twice || w.faulty(r, 4)
	}
	answers := make(chan reply, 1)
	late := w.some(r, answerLost)
	timer := time.AfterFunc(there, func() {
		roomy()
		c.arrive(numbered(ctx, there), method, b, back, late, lost, deaf, answers)
	})
	if twice {
		most := 2 * time.Second
		if strings.HasPrefix(method, "Controller.") { // fences are for those
			most = 20 * time.Second
		}
		again := there + w.some(r, most)
		time.AfterFunc(again, func() {
			c.arrive(numbered(context.WithoutCancel(ctx), again), method, b, back, late, false, false, make(chan reply, 1))
		})
	}
	defer timer.Stop()
	select {
	case a := <-answers:
		if a.err != nil {
			return a.err
		}
		_, err := resp.(msgp.Unmarshaler).UnmarshalMsg(a.b)
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.root.Done():
		return fault.New(fault.Unavailable, "the world ends")
	}
}

// number tells messages apart that are served at the same time. Delays are never the same.
type number struct{}

func numbered(ctx context.Context, delay time.Duration) context.Context {
	return context.WithValue(ctx, number{}, delay)
}

// numberOf names the message that ctx is of; empty when it is of none.
func numberOf(ctx context.Context) string {
	if n, ok := ctx.Value(number{}).(time.Duration); ok {
		return " of message " + strconv.Itoa(int(n))
	}
	return ""
}

type reply struct {
	b   []byte
	err error
}

// arrive serves a message and brings the answer back.
func (c caller) arrive(ctx context.Context, method string, b []byte, back, late time.Duration, lost, deaf bool, answers chan<- reply) {
	w := c.w
	h, life := c.to.serves(method)
	broken := func() reply {
		return reply{err: fault.New(fault.Unavailable, "%s is not reachable from %s", c.to.name(), c.from)}
	}
	if lost || h == nil || !w.reachable(c.from, c.to.name()) || w.root.Err() != nil {
		w.sleep(w.root, late)
		answers <- broken()
		return
	}
	in := h.New()
	if _, err := in.(msgp.Unmarshaler).UnmarshalMsg(b); err != nil {
		answers <- reply{err: err}
		return
	}
	serving, cancel := context.WithCancel(life)
	if at, ok := ctx.Deadline(); ok {
		serving, cancel = context.WithDeadline(life, at)
	}
	defer cancel()
	serving = context.WithValue(serving, number{}, ctx.Value(number{}))
	if h.Scope != wire.OnNode { // what drivers were asked for goes on
		defer context.AfterFunc(ctx, cancel)()
	}
	out, err := h.Serve(serving, in)
	if life.Err() != nil {
		err = fault.New(fault.Unavailable, "%s has died", c.to.name())
	}
	a := reply{err: err}
	if err == nil {
		a.b, a.err = out.(msgp.Marshaler).MarshalMsg(nil)
	}
	w.sleep(w.root, back)
	if deaf || !w.reachable(c.from, c.to.name()) {
		w.sleep(w.root, late)
		a = broken()
	}
	answers <- a
}
