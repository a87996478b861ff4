package fsm

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// odd is a command that can be written with more than it reads.
type odd struct {
	word
	Rows   []*api.Node
	tail   int
	limit  int
	nobody bool
}

func (o *odd) MarshalMsg(b []byte) ([]byte, error) {
	b = msgp.AppendInt(b, o.limit)
	b = msgp.AppendBool(b, o.nobody)
	return append(b, make([]byte, o.tail)...), nil
}

func (o *odd) UnmarshalMsg(b []byte) (_ []byte, err error) {
	if o.limit, b, err = msgp.ReadIntBytes(b); err != nil {
		return b, err
	}
	if o.limit > 1000 {
		return b, msgp.ErrLimitExceeded
	}
	if o.nobody, b, err = msgp.ReadBoolBytes(b); o.nobody {
		o.Rows = []*api.Node{nil}
	}
	return b, err
}

func (o *odd) Apply(tx *state.Txn) (any, error) {
	for _, n := range o.Rows {
		tx.PutNamespace(&api.Namespace{Name: n.ID})
	}
	return o.word.Apply(tx)
}

func oddLocal(t *testing.T) *Local {
	t.Helper()
	s := state.New()
	r := NewRegistry()
	r.Register(func() Command { return &odd{} })
	return NewLocal(s, r)
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	t.Parallel()
	l := oddLocal(t)
	if _, err := l.Propose(t.Context(), &odd{limit: 1000}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		cmd  *odd
		want error
	}{
		"over the decoder's limit": {&odd{limit: 1001}, fault.Invalid},
		"with bytes left over":     {&odd{tail: 1}, fault.Invalid},
		"with a null in a list":    {&odd{nobody: true}, fault.Invalid},
		"larger than the log's":    {&odd{tail: EntryMax}, fault.TooLarge},
	} {
		if _, err := l.Propose(t.Context(), c.cmd); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.machine.Failure(); err != nil {
		t.Errorf("the machine stopped: %v", err)
	}
	if _, err := l.Propose(t.Context(), &odd{limit: 1}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A program of before may have let a null into the log.
func TestANullInTheLogChangesNothing(t *testing.T) {
	t.Parallel()
	l := oddLocal(t)
	b, err := EncodeEntry(&odd{nobody: true}, time.Now(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	if done := l.machine.apply(5, b); !errors.Is(done.Err, fault.Invalid) || l.machine.Failure() != nil {
		t.Errorf("answered %v, failure %v", done.Err, l.machine.Failure())
	}
	if l.state.Read().Index() >= 5 {
		t.Error("it was committed")
	}
}

// The entry of a command that was decoded by its proposer is not decoded again; one with the same bytes elsewhere is.
func TestTheProposersCommandIsAppliedOnce(t *testing.T) {
	t.Parallel()
	s := state.New()
	m := NewMachine(s, words("text"), hclog.NewNullLogger())
	b, err := EncodeEntry(&word{"text", "one"}, time.Now(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	forget, err := m.Vet(b)
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		m.ready.Range(func(any, any) bool { n++; return true })
		return n
	}
	if done := m.apply(5, bytes.Clone(b)); done.Err != nil || count() != 1 {
		t.Errorf("a copy: %v, %d ready", done.Err, count())
	}
	if done := m.apply(6, b); done.Err != nil || count() != 0 {
		t.Errorf("the entry: %v, %d ready", done.Err, count())
	}
	forget()
	if forget, err = m.Vet(b); err != nil {
		t.Fatal(err)
	}
	if forget(); count() != 0 {
		t.Error("a command whose proposal failed is kept")
	}
}
